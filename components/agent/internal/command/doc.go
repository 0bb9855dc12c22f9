// Package command has commands of hooks and checks run in the containers of their
// services, never in the agent's own. A spec names them; what a name stands for is in
// the compose text that this CVM was measured to run.
package command
