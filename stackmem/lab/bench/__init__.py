"""Many runs side by side: the matrix of trials, the engines that run it, its results and their statistics."""
