; Repairs a failing module until its tests pass: one expression plans, edits, tests and decides.

(defatom plan-repair
  (params problem)
  (instructions "Say in one sentence what to change in slug.py. The tests say:\n{{problem}}")
  (subtype "director"))

(defatom edit
  (params plan)
  (instructions "Edit slug.py: {{plan}}\nDo not touch the tests.")
  (description "One sentence on what was changed."))

(define (run-tests)
  (system:execute_shell_command (command "python test_slug.py")))

(define (report done rounds)
  (log-message "Tests pass after" rounds "rounds:" (task-content done))
  rounds)

(let ((first-run (run-tests)))
  (if (task-ok? first-run)
      (progn (log-message "Nothing to repair.") 0)
      (director-evaluator-loop
        (max-iterations 4)
        (initial-director-input (get-field (get-field first-run 'notes) 'stderr))
        (director (lambda (problem round) (task-content (plan-repair (problem problem) (files (list "slug.py"))))))
        (executor (lambda (plan round) (edit (plan plan))))
        (evaluator (lambda (done plan round) (run-tests)))
        (controller (lambda (tests plan done round)
          (if (task-ok? tests)
              (list 'stop (report done round))
              (list 'continue (get-field (get-field tests 'notes) 'stderr))))))))
