; Puts the license line before every Python file that lacks it, and returns their names.
(define missing
  (task-content (shell (command "grep -rL SPDX-License-Identifier --include='*.py' . | sort"))))
(shell (command "for file in $(grep -rL SPDX-License-Identifier --include='*.py' .); do { echo '# SPDX-License-Identifier: Apache-2.0'; cat $file; } > .new; mv .new $file; done; git diff --stat | tail -1"))
missing
