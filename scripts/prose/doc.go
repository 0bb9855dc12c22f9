// Command prose runs vale, the prose linter, with the styles of scripts/vale over everything that a
// person reads: comments of Go and proto files, Markdown, and the help of commands. It runs at the root of the repository.
//
//	prose            check the repository: no error outside of unfinished.txt, none above its counts
//	prose PATH...    print every error in these files and folders
//	prose -record    write today's counts to unfinished.txt
//	prose -examples  check the styles themselves against examples.txt
//	prose -counts    print how often each pattern is used per 1,000 words
//
// unfinished.txt lists the folders and pages that were written before the styles, each with its number
// of errors. A number may fall and never rise, and a path without a line has no error.
package main
