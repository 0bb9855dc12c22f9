package command

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/gateserver"
	"cadre.dev/cli/internal/render"
	"cadre.dev/cli/internal/scrape"
	"cadre.dev/client"
	"cadre.dev/core/group"
)

func (a *App) gateCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "gate", Short: "Open and close the gates of groups, which hold work until a setting opens them",
		Long: `A group's file declares gates with gate "name" { on = ["step"] }. While a gate is closed, the
work that it names waits, and the plan shows the author and the end of the setting. With
per = "slot" each step of each slot waits for a setting of its own.`,
	}
	c.AddCommand(a.gateList(), a.gateWord(group.GateOpen), a.gateWord(group.GateClosed), a.gateClear(), a.gateServe())
	return c
}

func (a *App) gateList() *cobra.Command {
	return &cobra.Command{
		Use: "list [GROUP]", Aliases: []string{"ls"}, Short: "List gates with state, setting, and the steps that wait", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				list, err := cl.Gates(cmd.Context(), strings.Join(args, ""))
				if err != nil {
					return err
				}
				return a.show(list, func(s render.Style) string { return render.Gates(s, list) })
			})
		},
	}
}

// gateWord is `cadre gate open` or `cadre gate close`.
func (a *App) gateWord(state string) *cobra.Command {
	var f overrideFlags
	var slot, ticket string
	opens := state == group.GateOpen
	c := &cobra.Command{
		Use: "close GROUP/GATE", Short: "Close a gate", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGate,
		Long: `The work that the gate names waits until the gate is opened, or until the end of --for. A step
that has made no platform call is called off; every other step is finished.`,
		Example: "  cadre gate close postgres/alarm --for 1h --reason \"the error rate is high\"",
	}
	if opens {
		c.Use, c.Short = "open GROUP/GATE", "Open a gate, or open it for one step of a slot"
		c.Long = `A gate per slot is opened for one step with --slot, and for no step before or after. --ticket
names the step; without it, the step that waits now is meant. ` + "`cadre gate list`" + ` and the
plan show the tickets.`
		c.Example = "  cadre gate open postgres/network --reason \"the subnet is there\"\n  cadre gate open postgres/balancer --slot postgres-1 --reason \"it is out of the pool\""
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		name, gate, err := gateArg(args[0])
		if err != nil {
			return err
		}
		if err := f.check(a.now()); err != nil {
			return err
		}
		if ticket != "" && slot == "" {
			return usagef("--ticket %s: give the slot of the step too, with --slot", ticket)
		}
		return a.withClient(func(cl *client.Client) error {
			setting := client.GateSetting{Group: name, Gate: gate, Slot: slot, State: state, Ticket: ticket, Reason: f.reason, Length: f.length}
			if opens && slot != "" && ticket == "" {
				if setting.Ticket, err = ticketOf(cmd.Context(), cl, name, gate, slot); err != nil {
					return err
				}
			}
			out, err := cl.SetGate(cmd.Context(), setting)
			if err != nil {
				return err
			}
			until := "until it is set again"
			if !out.Until.IsZero() {
				until = "until " + out.Until.Local().Format("2006-01-02 15:04:05")
			}
			return a.show(out, func(render.Style) string {
				if slot != "" && opens {
					return fmt.Sprintf("gate %s/%s is open for the step of %s with ticket %s, %s\n", name, gate, slot, setting.Ticket, until)
				}
				return fmt.Sprintf("gate %s is %s %s\n", strings.TrimSuffix(args[0]+" of "+slot, " of "), state, until)
			})
		})
	}
	f.bind(c)
	c.Flags().StringVar(&slot, "slot", "", "slot, for a gate with per = \"slot\"")
	if opens {
		c.Flags().StringVar(&ticket, "ticket", "", "ticket of the step (default: the step that waits now)")
	}
	return c
}

// ticketOf returns the ticket of the step of a slot that a gate holds now.
func ticketOf(ctx context.Context, cl *client.Client, name, gate, slot string) (string, error) {
	list, err := cl.Gates(ctx, name)
	if err != nil {
		return "", err
	}
	for _, g := range list {
		if g.Gate == gate && g.Per != group.GatePerSlot {
			return "", usagef("--slot %s: gate %s/%s is of the whole group; leave --slot out", slot, name, gate)
		}
		if g.Gate == gate && g.Slot == slot && g.Ticket != "" {
			return g.Ticket, nil
		}
	}
	return "", fmt.Errorf("no step of %s waits for a setting of gate %s/%s: `cadre gate list %s` shows the steps that wait", slot, name, gate, name)
}

func (a *App) gateClear() *cobra.Command {
	var slot string
	c := &cobra.Command{
		Use: "clear GROUP/GATE", Short: "Take the setting of a gate back: the gate has its default again", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGate,
		Example: "  cadre gate clear postgres/alarm\n  cadre gate clear postgres/balancer --slot postgres-1",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, gate, err := gateArg(args[0])
			if err != nil {
				return err
			}
			return a.withClient(func(cl *client.Client) error {
				changed, err := cl.ClearGate(cmd.Context(), name, gate, slot)
				if err != nil {
					return err
				}
				return a.show(map[string]bool{"changed": changed}, func(render.Style) string {
					if !changed {
						return "there is no setting of gate " + args[0] + ": nothing is changed\n"
					}
					return "the setting of gate " + args[0] + " is taken back\n"
				})
			})
		},
	}
	c.Flags().StringVar(&slot, "slot", "", "slot, for a gate with per = \"slot\"")
	return c
}

// gateArg splits GROUP/GATE.
func gateArg(arg string) (name, gate string, err error) {
	name, gate, both := strings.Cut(arg, "/")
	if !both || group.NameProblem(name) != "" || group.NameProblem(gate) != "" {
		return "", "", usagef("%q names no gate: write GROUP/GATE, as `cadre gate list` does", arg)
	}
	return name, gate, nil
}

func (a *App) gateServe() *cobra.Command {
	listen, remote := "127.0.0.1:9465", false
	var tokenFile string
	c := &cobra.Command{
		Use: "serve", Short: "Take settings of gates over HTTP, from a balancer or an alarm", Args: cobra.NoArgs,
		Long: `Serves until interrupted, with the right of the context's operator:

  POST   /v1/gates/GROUP/GATE   {"state": "closed", "reason": "...", "for": "1h"}
  DELETE /v1/gates/GROUP/GATE   takes the setting back
  GET    /v1/gates/GROUP        lists the gates; GET /v1/gates lists those of all groups

A setting of a gate per slot has "slot" too, and "ticket" to open the gate. Each request
carries the text of the token file: Authorization: Bearer TOKEN. The file is read again at
each request. Take an operator with the role operate and the groups that the caller needs.

The requests are not encrypted. So only loopback addresses are allowed, unless
--allow-remote is set: put a proxy with TLS before it.`,
		Example: "  openssl rand -hex 32 > gate.token; chmod 600 gate.token\n  cadre --context gates.json gate serve --token-file gate.token",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if tokenFile == "" {
				return usagef("--token-file is missing: requests carry its text as their token")
			}
			if err := scrape.CheckAddress(listen, remote); err != nil {
				return usagef("--listen %s: %w", listen, err)
			}
			if _, err := gateserver.ReadToken(tokenFile); err != nil {
				return fmt.Errorf("--token-file: %w", err)
			}
			if _, _, err := a.load(); err != nil {
				return err
			}
			l, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return fmt.Errorf("--listen: %w", err)
			}
			log := slog.New(slog.NewTextHandler(a.Err, nil))
			log.Info("taking settings of gates", "url", "http://"+l.Addr().String()+"/v1/gates")
			return (&gateserver.Server{
				Token: func() (string, error) { return gateserver.ReadToken(tokenFile) },
				With: func(fn func(gateserver.Gates) error) error {
					known, _, err := a.readContext()
					if err != nil {
						return err
					}
					cl, err := client.Dial(known, a.Dial)
					if err != nil {
						return err
					}
					defer cl.Close()
					return fn(cl)
				},
				Log: log,
			}).Serve(cmd.Context(), l)
		},
	}
	c.Flags().StringVar(&listen, "listen", listen, "address and port")
	c.Flags().StringVar(&tokenFile, "token-file", "", "file with the token that requests carry (required)")
	c.Flags().BoolVar(&remote, "allow-remote", false, "allow an address that other machines reach")
	return c
}

// completeGate offers GROUP/GATE for the first argument.
func (a *App) completeGate(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.ask(cmd, func(ctx context.Context, cl *client.Client) (names []string, err error) {
		list, err := cl.Gates(ctx, "")
		seen := map[string]bool{}
		for _, g := range list {
			if name := g.Group + "/" + g.Gate; !seen[name] {
				seen[name], names = true, append(names, name)
			}
		}
		return names, err
	})
}
