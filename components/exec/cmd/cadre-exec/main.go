// Command cadre-exec is the first process of a workload's container: it waits until
// this CVM is admitted, then runs the workload and, for the agent alone, the commands
// that the measured compose file declares for the service. The agent places it at
// /run/mesh/exec.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"cadre.dev/exec/internal/container"
)

// version is set at link time.
var version = "dev"

const usage = `usage: exec [--hosts] [--user=USER[:GROUP]] [--revision-mark=MARK] -- command [argument...]

Waits until this CVM is admitted, sets the CADRE_ variables and runs the command, whose
exit code it ends with (128 and the number for a signal).

  --hosts    keep the names of Peers and routes in this container's own /etc/hosts
  --user     run command, and what the agent asks for, as this user of the image, by name
             or number; this program must be started as root
  --revision-mark
             mark of the compose file that this container is of; nothing runs where the
             CVM measured another one
  --version  print the version and exit
`

// agentUID is the user that may run commands: the agent runs as root.
const agentUID = 0

func main() {
	if code, ok := container.Role(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	cfg := container.Config{Commands: "/run/cadre-exec", AgentUID: agentUID}
	for len(args) > 0 && args[0] != "--" {
		user, isUser := strings.CutPrefix(args[0], "--user=")
		mark, isMark := strings.CutPrefix(args[0], "--revision-mark=")
		switch {
		case isMark && mark != "":
			cfg.Mark = mark
		case args[0] == "--hosts":
			cfg.Hosts = "/etc/hosts"
		case isUser && user != "":
			cfg.User = user
		case args[0] == "--version":
			fmt.Println("cadre-exec", version)
			return 0
		default:
			fmt.Fprintf(os.Stderr, "cadre-exec: %q: options end with --\n%s", args[0], usage)
			return container.ExitUsage
		}
		args = args[1:]
	}
	if len(args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		return container.ExitUsage
	}
	own, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cadre-exec:", err)
		return container.ExitUsage
	}
	cfg.ServiceMesh = filepath.Dir(own)
	return container.Init(cfg, args[1:])
}
