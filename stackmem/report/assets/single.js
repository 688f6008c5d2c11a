// The page as a file: what it holds is all there is.

import { open } from "./main.js";

open();
