// Command prose runs vale, the prose linter, with the styles of scripts/vale over everything that a
// person reads: comments of Go and proto files, Markdown, and the help of commands. It runs at the root of the repository.
//
//	prose            check the repository: every error is printed, and fails
//	prose PATH...    print every error and warning in these files and folders
//	prose -examples  check the styles themselves against examples.txt
//	prose -counts    print how often each pattern is used per 1,000 words
package main
