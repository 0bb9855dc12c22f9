// Package command has the commands of cadre, one file per verb. A command reads its flags, asks the
// client or the platform, and passes the answer to package render. exit.go turns errors into exit
// codes.
package command
