package command

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/localcloud"
)

// hostVerbs are the events of a host of dstack-vmm.
var hostVerbs = []string{"kill", "return", "restart-vmm", "hang", "refuse", "up"}

// faultHost lets a host of a cloud of platform vmm fail.
func (a *App) faultHost(dir *string) *cobra.Command {
	var after time.Duration
	c := &cobra.Command{
		Use: "host HOST kill|return|restart-vmm|hang|refuse|up", Short: "Let a host of platform vmm fail, or bring a host back", Args: cobra.ExactArgs(2),
		Long: `kill takes the power from a host: each of its CVMs dies, and its endpoint does not answer.
return gives the power back, and the CVMs that were on boot. restart-vmm restarts the server
alone, which forgets what guests have reported. hang and refuse close the endpoint while CVMs
run on; up opens the endpoint.`,
		Example: `  # an endpoint that does not answer for a minute
  cadre local fault host host-a hang --for 1m`,
		RunE: func(cmd *cobra.Command, args []string) error {
			host, verb := args[0], args[1]
			if !slices.Contains(hostVerbs, verb) {
				return usagef("%q is not one of %s", verb, strings.Join(hostVerbs, ", "))
			}
			closes := verb == "hang" || verb == "refuse"
			if after != 0 && (!closes || after < 0) {
				return usagef("--for: give a positive time, with hang or refuse")
			}
			api, err := a.local(dir)
			if err != nil {
				return err
			}
			if err := api.ActOnHost(cmd.Context(), host, verb, after); err != nil {
				return err
			}
			done := map[string]string{
				"kill": "has no power; bring it back with `cadre local fault host " + host + " return" + localcloud.At(*dir) + "`", "return": "has power again",
				"restart-vmm": "has restarted its server", "hang": "does not answer", "refuse": "refuses connections", "up": "answers",
			}[verb]
			if after > 0 {
				done += " for " + after.String()
			}
			a.say(host + " " + done)
			return nil
		},
	}
	c.Flags().DurationVar(&after, "for", 0, "with hang and refuse: how long (default: until up)")
	return c
}
