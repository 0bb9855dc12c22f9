// Package command runs the commands of hooks and checks in the containers of their services, never
// in the agent's own. A spec names a command; its definition is in the compose text that this CVM
// was measured with.
package command
