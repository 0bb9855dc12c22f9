package command

import (
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
)

func (a *App) overlayCommand() *cobra.Command {
	c := &cobra.Command{Use: "overlay", Short: "The overlay: how the members reach each other, and how well"}
	c.AddCommand(a.overlayStatus(), a.overlayPath(), a.overlayPing(), a.overlayBench())
	return c
}

func (a *App) overlayStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status [SLOT]", Short: "Show each peer of a slot: its path, round trip, loss and traffic", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeSlot,
		Long: `Shows the links of one slot as its own agent sees them; without SLOT those of
the coordinator that answers, which knows everybody.

PATH is direct-tcp, direct-udp, gateway or relay; IN and OUT are what the session
in use moved; WHY tells why this path is in use, or why there is none.`,
		Example: `  cadre overlay status
  cadre overlay status postgres-0
  cadre overlay status postgres-0 -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			slot := ""
			if len(args) > 0 {
				slot = args[0]
			}
			return a.withClient(func(cl *client.Client) error {
				m, err := cl.Overlay(cmd.Context(), slot, "")
				if err != nil {
					return err
				}
				return a.show(m, func(s render.Style) string { return render.Overlay(s, m, a.now()) })
			})
		},
	}
}

// from binds the flag that names the queried agent.
func (a *App) from(c *cobra.Command) *string {
	slot := c.Flags().String("from", "", "slot whose agent is asked (default: the coordinator that answers)")
	completeOr(c.RegisterFlagCompletionFunc("from", func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return a.completeSlot(cmd, nil, word)
	}))
	return slot
}

func (a *App) overlayPath() *cobra.Command {
	var from *string
	c := &cobra.Command{
		Use: "path PEER", Short: "Show the path to a peer, its reason, the other paths, and the changes", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		Example: `  cadre overlay path postgres-1 --from postgres-0`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				m, err := cl.Overlay(cmd.Context(), *from, args[0])
				if err != nil {
					return err
				}
				return a.show(m, func(s render.Style) string {
					text := ""
					for _, l := range m.Links {
						text += render.MeshPath(s, m.Slot, l, a.now())
					}
					return text
				})
			})
		},
	}
	from = a.from(c)
	return c
}

func (a *App) overlayPing() *cobra.Command {
	var from *string
	var count int
	c := &cobra.Command{
		Use: "ping PEER", Short: "Measure round trips to a peer over the session in use", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		Long: `Measures round trips inside the session in use, past data that waits there.
Ends with 1 when no round trip had an answer.`,
		Example: `  cadre overlay ping postgres-1 --from postgres-0 --count 10`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 || count > maxPings {
				return usagef("--count %d: want 1 to %d", count, maxPings)
			}
			return a.withClient(func(cl *client.Client) error {
				p, err := cl.Ping(cmd.Context(), *from, args[0], count)
				if err != nil {
					return err
				}
				if err := a.show(p, func(s render.Style) string { return render.Ping(s, p) }); err != nil {
					return err
				}
				for _, one := range p.Samples {
					if one.Error == "" {
						return nil
					}
				}
				return silent{ExitError}
			})
		},
	}
	from = a.from(c)
	c.Flags().IntVar(&count, "count", 5, "number of round trips, at most 50")
	return c
}

const (
	// maxPings and maxBench are the nodes' own bounds, said before they are asked.
	maxPings = 50
	maxBench = 10 * time.Second
)

func (a *App) overlayBench() *cobra.Command {
	var from *string
	var d time.Duration
	var direction string
	c := &cobra.Command{
		Use: "bench PEER", Short: "Measure throughput with a peer, by loading the path between the two", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSlot,
		Long: `Moves data over one stream of the session in use, first to the peer and then
from it, and reports its rate, with the round trip before and under load.
It competes with the workload's own traffic, so it needs the right to write the
specs of the groups of both. At most 10 s and 2 GiB for each direction; a node
takes part in one at a time.`,
		Example: `  cadre overlay bench postgres-1 --from postgres-0 --for 5s
  cadre overlay bench postgres-1 --from postgres-0 --direction receive`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if d < time.Millisecond || d > maxBench {
				return usagef("--for %s: want up to %s", d, maxBench)
			}
			ways := map[string][]client.Direction{
				"both": {client.Send, client.Receive}, "send": {client.Send}, "receive": {client.Receive},
			}[direction]
			if ways == nil {
				return usagef("--direction %s: want both, send or receive", direction)
			}
			return a.withClient(func(cl *client.Client) error {
				list := []client.Bench{}
				for _, way := range ways {
					b, err := cl.Bench(cmd.Context(), *from, args[0], d, way)
					if err != nil {
						return err
					}
					list = append(list, b)
				}
				return a.show(list, func(s render.Style) string { return render.Bench(s, list) })
			})
		},
	}
	from = a.from(c)
	c.Flags().DurationVar(&d, "for", 5*time.Second, "how long, for each direction; at most 10s")
	c.Flags().StringVar(&direction, "direction", "both", "both, send (to the peer) or receive (from it)")
	return c
}
