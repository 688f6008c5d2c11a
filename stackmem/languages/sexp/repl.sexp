nil ; what `stackmem repl` starts with
