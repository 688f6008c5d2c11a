"""S-expression workflows: a small Lisp whose atomic tasks are frames on the machine."""
