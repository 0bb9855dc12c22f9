// Package command has the commands of cadre, one file per verb. A command reads
// its flags, asks the client or the platform, and hands the answer to package
// render; what an error means for the caller's shell is decided in exit.go.
package command
