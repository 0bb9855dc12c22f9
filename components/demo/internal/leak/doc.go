// Package leak looks for known secrets, canaries, where they must not be: in logs,
// records, answers, process tables and files on disks. It looks for each in every
// form in which a program may have written it down.
package leak
