; Three reviewers read a change in parallel, each for another kind of fault; the majority decides.

(defatom review
  (params eye change)
  (instructions "You review for {{eye}}. Vote on this change.\n{{change}}")
  (subtype "evaluator")
  (output_format ((type "json") (schema "vote.json"))))

(define (vote-on eye change)
  (let ((result (review (eye eye) (change change))))
    (if (task-ok? result)
        (task-content result)
        (list (list 'vote "reject") (list 'reason (string-append "no vote: " (task-content result)))))))

(define (approves vote) (string=? (get-field vote 'vote) "approve"))

(let* ((change (task-content (read_file (path "change.diff"))))
       (votes (parallel (vote-on "correctness" change) (vote-on "safety" change) (vote-on "readability" change)))
       (ayes (length (filter approves votes))))
  (map (lambda (vote) (log-message (get-field vote 'vote) "-" (get-field vote 'reason))) votes)
  (if (> (* 2 ayes) (length votes)) 'approved 'rejected))
