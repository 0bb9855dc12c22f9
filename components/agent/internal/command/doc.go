// Package command runs an operator's commands: an argument vector, never a
// shell string, in a process group of its own that does not outlive its time.
package command
