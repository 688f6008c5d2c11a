// The page as a file: all its data is in it.

import { open } from "./main.js";

open();
