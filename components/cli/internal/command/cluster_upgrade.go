package command

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/genesis"
	"cadre.dev/cli/internal/render"
	"cadre.dev/cli/upgrade"
	"cadre.dev/client"
	"cadre.dev/client/groupfile"
)

// changeFlags are the flags of commands that change coordinators.
type changeFlags struct {
	file     fileFlags
	sure     sureFlags
	deadline time.Duration
	timeout  time.Duration
}

func (f *changeFlags) bind(c *cobra.Command, what string) {
	c.Flags().StringArrayVar(&f.file.vars, "var", nil, "name=value for var.name in the file; may be repeated")
	c.Flags().StringArrayVar(&f.file.varFiles, "var-file", nil, "file of name = \"value\" lines; may be repeated")
	c.Flags().DurationVar(&f.deadline, "deadline", genesis.DefaultStep, "how long a changed coordinator may take until it is well")
	c.Flags().DurationVar(&f.timeout, "timeout", 2*time.Hour, "how long it may take in all")
	f.sure.bind(c, what)
}

// options prepares the change of the coordinators of a cluster file.
func (a *App) changeOptions(path string, f changeFlags) (genesis.Options, error) {
	if f.deadline <= 0 {
		return genesis.Options{}, usagef("--deadline %s: give a duration above 0", f.deadline)
	}
	one, err := readCluster(path, f.file)
	if err != nil {
		return genesis.Options{}, err
	}
	return a.cloudOptions(one, f.deadline)
}

func (a *App) cloudOptions(one groupfile.Cluster, step time.Duration) (genesis.Options, error) {
	name := a.context
	if name == "" && os.Getenv("CADRE_CONTEXT") == "" {
		name = one.Name
	}
	at, err := client.Path(name)
	if err != nil {
		return genesis.Options{}, err
	}
	known, err := client.LoadContext(at)
	if err != nil {
		return genesis.Options{}, err
	}
	a.simulated = known.Simulated()
	cloud, key, err := genesis.OpenFor(one.Platform, "")
	return genesis.Options{Cluster: one, ContextPath: at, Cloud: cloud, APIKey: key, Say: a.progress, Dial: a.Dial, Step: step}, err
}

// progress prints a line with its time.
func (a *App) progress(text string) {
	a.say(a.now().Format("15:04:05") + "  " + strings.ReplaceAll(text, "\n", " "))
}

func (a *App) clusterUpgrade() *cobra.Command {
	var f changeFlags
	var planOnly, env bool
	var allowed string
	c := &cobra.Command{
		Use: "upgrade FILE", Short: "Change the coordinators to the cluster file, one at a time", Args: cobra.ExactArgs(1),
		Long: `Changes the compose file, the OS image and the shape of the coordinators to those of
FILE. Each CVM boots again on its disk. Followers change first, one at a time; the leader
steps down and changes last. No coordinator is taken down while another one is unwell: each
must run on the platform, prove itself, answer, have a healthy vote in Consul and sessions
with the members.

The command runs on this machine, so a version that does not come up locks it out of
nothing. It stops then, and ` + "`cadre cluster upgrade OLD.hcl`" + ` with the file of the version
before is the way back, also with one coordinator broken. Run the command again after an
interruption: it continues from what the platform and the coordinators show.

The new compose hash is added to the context before anything changes. If trust files of
groups name the hashes of coordinators and lack the new one, the command lists the groups
and changes nothing.

Without --confirm or --yes, and with --plan, the command only prints the plan. A change of
env values alone is not seen: env values are not measured, and the platform does not show
them. With --env each coordinator gets the env values of FILE and boots again, also where
nothing else changes. Use it after a change of the nodes or of the token of own hosts. An
interrupted run with --env begins with the first coordinator again.

On own hosts without kms_auth_file in FILE, the key service gives the coordinators no keys
until a person allows their new compose hash. The command prints the hash and changes
nothing until --kms-allows has it.`,
		Example: "  cadre cluster upgrade cluster.hcl --plan\n  cadre cluster upgrade cluster.hcl --confirm demo",
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.changeOptions(args[0], f)
			if err != nil {
				return err
			}
			o.Env, o.KMSAllows = env, strings.TrimPrefix(strings.ToLower(allowed), "0x")
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			up, err := genesis.PrepareUpgrade(ctx, o)
			if err != nil {
				return fmt.Errorf("upgrade cluster %s: %w", o.Cluster.Name, err)
			}
			picture := func(s render.Style) string { return render.Upgrade(s, up.Plan) }
			if planOnly {
				return a.show(up.Plan, picture)
			}
			if err := a.unlessSure(up.Plan, f.sure.sure(up.Plan.Cluster) || !up.Plan.Changes() && !up.Plan.TrustChanges, up.Plan.Cluster, picture); err != nil {
				return err
			}
			if err := up.Run(ctx); err != nil {
				return fmt.Errorf("upgrade cluster %s: %w", o.Cluster.Name, err)
			}
			return nil
		},
	}
	f.bind(c, "the cluster's name")
	c.Flags().BoolVar(&planOnly, "plan", false, "only print the plan")
	c.Flags().BoolVar(&env, "env", false, "give each coordinator the env values of FILE again")
	c.Flags().StringVar(&allowed, "kms-allows", "", "compose hash that the key service of own hosts allows the coordinators now")
	c.ValidArgsFunction = completeHCL
	return c
}

// replacementView is the form of -o json.
type replacementView struct {
	Slot   string `json:"slot"`
	VMUUID string `json:"vm_uuid,omitempty"`
	// Against are the reasons why the coordinator may not be replaced.
	Against   []string      `json:"against,omitempty"`
	Continues bool          `json:"continues,omitempty"`
	Facts     upgrade.Facts `json:"facts"`
}

func (a *App) clusterReplace() *cobra.Command {
	var f changeFlags
	c := &cobra.Command{
		Use: "replace COORDINATOR FILE", Short: "Give a coordinator whose disk is lost a new CVM with an empty disk", Args: cobra.ExactArgs(2),
		Long: `For a coordinator whose CVM or disk is lost or broken while all others are well. The
command removes its vote in Consul, deletes its CVM with the disk, makes the CVM again
under the same name from FILE, and waits until the new coordinator has a healthy vote. The
records come from the other coordinators. FILE is the cluster file that they run.

A coordinator that is well is never replaced. Run the command again after an interruption:
it continues, and deletes no new CVM. Without --confirm or --yes it only prints the
losses.`,
		Example: "  cadre cluster replace coordinator-1 cluster.hcl --confirm coordinator-1",
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.changeOptions(args[1], f)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			r, err := genesis.PrepareReplace(ctx, o, args[0])
			if err != nil {
				return fmt.Errorf("replace %s: %w", args[0], err)
			}
			v := replacementView{Slot: args[0], VMUUID: r.VMUUID, Against: r.Against, Continues: r.Continues, Facts: r.Facts}
			sure := f.sure.sure(args[0]) || len(r.Against) > 0
			if err := a.unlessSure(v, sure, args[0], func(s render.Style) string {
				return render.Coordinators(s, r.Facts) + render.CoordinatorReplacement(args[0], r.VMUUID, r.Against)
			}); err != nil {
				return err
			}
			if len(r.Against) > 0 {
				return silent{ExitRefused}
			}
			if err := r.Run(ctx); err != nil {
				return fmt.Errorf("replace %s: %w", args[0], err)
			}
			return nil
		},
	}
	f.bind(c, "the coordinator's name")
	return c
}
