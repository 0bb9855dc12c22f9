package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
)

func (a *App) logsCommand() *cobra.Command {
	var o client.LogOptions
	c := &cobra.Command{
		Use: "logs INSTANCE [SERVICE]", Short: "Show the last output of a service, of an agent or of a coordinator", Args: cobra.RangeArgs(1, 2), ValidArgsFunction: a.completeSlot,
		Long: `Shows the last 256 KiB of a log, which its process keeps in memory. A service keeps its output if
the measured compose file opens it with x-cadre: { logs: true }. SERVICE may be omitted if one service does.
SERVICE cadre-agent is the agent's own log, and INSTANCE coordinator-<n> is a coordinator, whose log
starts with its process.

A reader that is too slow loses bytes, which a line "... N bytes dropped" marks. Control characters
appear as \xNN, so that a log cannot steer the terminal. With --follow the command ends with the container.

The token needs the right to write control/logs/<group>.`,
		Example: `  cadre logs postgres-0 patroni --follow
  cadre logs postgres-0 cadre-agent --tail 100
  cadre logs coordinator-1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.output == "json" {
				return usagef("-o json: a log is text; remove the flag")
			}
			if o.Lines < 0 {
				return usagef("--tail %d: give a positive number, or 0 for all lines", o.Lines)
			}
			if o.Slot = args[0]; len(args) > 1 {
				o.Service = args[1]
			}
			return a.withClient(func(cl *client.Client) error {
				out := a.log()
				err := cl.Logs(cmd.Context(), o, out.Piece)
				if o.Follow && errors.Is(err, context.Canceled) {
					err = nil // the reader ends a followed log
				}
				return errors.Join(err, out.Close())
			})
		},
	}
	c.Flags().BoolVarP(&o.Follow, "follow", "f", false, "continue with later lines")
	c.Flags().IntVar(&o.Lines, "tail", 0, "only the last `lines`; 0: all that are kept")
	return c
}

// log shows foreign text on standard output, and the SIMULATED banner apart from it.
func (a *App) log() *render.Log {
	_, _ = io.WriteString(a.Err, render.Banner(a.style(), a.simulated))
	return render.NewLog(a.Out)
}

func (a *App) instanceRun() *cobra.Command {
	var limit time.Duration
	c := &cobra.Command{
		Use: "run INSTANCE SERVICE COMMAND", Short: "Run a command that the measured compose file declares for operators", Args: cobra.ExactArgs(3), ValidArgsFunction: a.completeSlot,
		Long: `Runs a command in the container of its service, as the service's user. COMMAND is a name that the
compose file declares under x-cadre.commands of the service; other commands are refused with the list of
declared ones. The command's standard output and standard error, at most 1 MiB, are shown as they come.

The exit code is the command's: 128 and the number of the signal that ended it, and 124 after
--timeout. If the command did not run, the exit code is cadre's own, with an error. The command is
killed with all its processes when its time is up or cadre ends.

The token needs the right to write control/run/<group>.`,
		Example: `  cadre instance run postgres-0 patroni vacuum --timeout 5m`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.output == "json" {
				return usagef("-o json: a command's output is text; remove the flag")
			}
			if limit <= 0 {
				return usagef("--timeout %s: give a positive time, at most 10m", limit)
			}
			return a.withClient(func(cl *client.Client) error {
				return a.runInstance(cmd.Context(), cl, args, limit)
			})
		},
	}
	c.Flags().DurationVar(&limit, "timeout", time.Minute, "the command's time, at most 10m; then it is killed")
	return c
}

func (a *App) runInstance(ctx context.Context, cl *client.Client, args []string, limit time.Duration) error {
	out := a.log()
	end, err := cl.RunCommand(ctx, args[0], args[1], args[2], limit, func(data []byte) error { return out.Piece(0, data) })
	if err != nil {
		return errors.Join(err, out.Close())
	}
	if end.Dropped > 0 {
		err = out.Piece(end.Dropped, nil)
	}
	if err = errors.Join(err, out.Close()); err != nil || end.Code == 0 {
		return err
	}
	_, _ = io.WriteString(a.Err, fmt.Sprintf("cadre: command %s in %s of %s ended with code %d\n", args[2], args[1], args[0], end.Code))
	return silent{end.Code}
}
