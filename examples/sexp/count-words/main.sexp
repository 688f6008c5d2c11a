; Maps a function over files: the program counts, and a task makes only the judgment.

(defatom headline
  (params text)
  (instructions "Give a headline of at most five words for this note:\n{{text}}")
  (subtype "evaluator"))

(define (content path) (task-content (read_file (path path))))

(define (measured path)
  (let* ((text (content path)) (words (length (string-split text))))
    (list path words (if (< words most) 'short (task-content (headline (text text)))))))

(define paths
  (map (lambda (name) (string-append "notes/" name)) (task-content (list_files (path "notes")))))

(let ((rows (map measured paths)))
  (map (lambda (row) (log-message (string-join row " | "))) rows)
  (log-message "total" (reduce + 0 (map (lambda (row) (nth row 1)) rows)))
  (length rows))
