package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/genesis"
	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/policy"
	"cadre.dev/platform"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

func (a *App) clusterCommand() *cobra.Command {
	c := &cobra.Command{Use: "cluster", Short: "Clusters: create, verify, inspect and delete the coordinators"}
	c.AddCommand(a.clusterCreate(), a.clusterConnect(), a.clusterStatus(), a.clusterCA(), a.clusterBackup(), a.clusterRestore(), a.clusterAcceptRestore(), a.clusterUpgrade(), a.clusterReplace(), a.clusterDelete())
	return c
}

func (a *App) clusterCreate() *cobra.Command {
	var f fileFlags
	var timeout time.Duration
	c := &cobra.Command{
		Use: "create FILE", Short: "Make a cluster's coordinators, prove them, and remember them", Args: cobra.ExactArgs(1),
		Long: `Allots the coordinators' app id, renders the trust file into their compose file,
makes their CVMs one after another, waits until one proves itself by attestation,
pins the cluster's CA and writes the context file with the operator's token.
Run again after an interruption: it continues.`,
		Example: "  cadre cluster create cluster.hcl --var cloud=cloud.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			one, err := readCluster(args[0], f)
			if err != nil {
				return err
			}
			name := a.context
			if name == "" {
				name = one.Name
			}
			path, err := client.Path(name)
			if err != nil {
				return err
			}
			api, key, err := genesis.OpenFor(one.Platform, "")
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			made, err := genesis.Create(ctx, genesis.Options{Cluster: one, ContextPath: path, Cloud: api, APIKey: key, Say: a.say, Dial: a.Dial})
			if err != nil {
				return fmt.Errorf("create cluster %s: %w\nrun the same command again to continue", one.Name, err)
			}
			if a.output == "json" {
				return a.json(map[string]string{"cluster": made.Cluster, "context": path, "coordinator_app_id": made.CoordinatorAppID})
			}
			a.say(fmt.Sprintf("cluster %s is ready; next: `cadre --context %s group apply FILE`", made.Cluster, format.Word(name)))
			return nil
		},
	}
	c.Flags().StringArrayVar(&f.vars, "var", nil, "name=value for var.name in the file; may be repeated")
	c.Flags().StringArrayVar(&f.varFiles, "var-file", nil, "file of name = \"value\" lines; may be repeated")
	c.Flags().DurationVar(&timeout, "timeout", 20*time.Minute, "how long it may take in all")
	c.ValidArgsFunction = completeHCL
	return c
}

func readCluster(path string, f fileFlags) (groupfile.Cluster, error) {
	vars, err := groupfile.CollectVars(f.vars, f.varFiles)
	if err != nil {
		return groupfile.Cluster{}, usageError{err}
	}
	file, err := groupfile.Load([]string{path}, vars)
	if err != nil {
		return groupfile.Cluster{}, err
	}
	if len(file.Clusters) != 1 {
		return groupfile.Cluster{}, usagef("%s has %d cluster blocks, want one", path, len(file.Clusters))
	}
	return file.Clusters[0], nil
}

func (a *App) clusterConnect() *cobra.Command {
	var again bool
	c := &cobra.Command{
		Use: "connect [FILE]", Short: "Prove the coordinators and pin their CA and cluster ID", Args: cobra.MaximumNArgs(1),
		Long: `Has a coordinator of a known cluster prove itself by attestation and pins the CA
and the cluster ID that it proves: from then on another set of coordinators of the same
app is refused. FILE is a context file from another machine; it is checked first and
then kept here.`,
		Example: "  cadre cluster connect ann.json\n  cadre --context demo cluster connect --reattest",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, path, err := a.contextFor(args)
			if err != nil {
				return err
			}
			old := c.CAPEM
			if old == "" || again || len(args) > 0 {
				if again {
					c.ClusterID = ""
				}
				got, err := client.Attest(cmd.Context(), c, a.Dial)
				if err != nil {
					return err
				}
				if old != "" && old != got.CAPEM && !again {
					return &client.Error{Kind: client.Untrusted, Doing: "connect to " + c.Cluster, Message: "the coordinators prove another CA than the one in the context",
						Hint: "if the cluster was created again, accept it with --reattest"}
				}
				c.CAPEM, c.ClusterID = got.CAPEM, got.ClusterID
				a.say(fmt.Sprintf("%s is proven: cluster ID %s, compose hash %s", got.Slot, got.ClusterID, got.Claims.ComposeHash))
				if err := c.Save(path); err != nil {
					return err
				}
			}
			cl, err := client.Dial(c, a.Dial)
			if err != nil {
				return err
			}
			defer cl.Close()
			info, err := cl.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			a.simulated = c.Simulated()
			return a.show(info, func(s render.Style) string { return render.Cluster(s, c, info, nil) })
		},
	}
	c.Flags().BoolVar(&again, "reattest", false, "prove again and accept another CA and cluster ID")
	return c
}

// contextFor is the context of the flags, or of a file that is to be kept here.
func (a *App) contextFor(args []string) (client.Context, string, error) {
	if len(args) == 0 {
		return a.load()
	}
	c, err := client.LoadContext(args[0])
	if err != nil {
		return c, "", err
	}
	name := a.context
	if name == "" {
		name = c.Cluster
	}
	path, err := client.Path(name)
	return c, path, err
}

// clusterView is the form of -o json.
type clusterView struct {
	Cluster     string                    `json:"cluster"`
	Coordinator *apiv1.GetClusterResponse `json:"coordinator"`
	CVMs        []platform.Instance       `json:"cvms"`
	// Members are the admission states of the slots, for their machines.
	Members []policy.AdmissionStatus `json:"members,omitempty"`
	// Coordinators proved themselves to this command; State and dates are by the context's trust.
	Coordinators []policy.AdmissionStatus `json:"coordinators,omitempty"`
	// Backup is the last backup; nil: unknown.
	Backup   *client.LastBackup `json:"backup,omitempty"`
	Problems []string           `json:"problems,omitempty"`
}

func (a *App) clusterCA() *cobra.Command {
	return &cobra.Command{
		Use: "ca", Short: "Print the pinned cluster CA, PEM, for the configuration of a rendezvous server", Args: cobra.NoArgs,
		Long: `Prints the certificate of the cluster's CA, as the coordinators proved it and the
context has pinned it. A rendezvous server takes members of the cluster in when it
finds this as <cluster>.pem in its --roots folder.`,
		Example: "  cadre cluster ca > /etc/cadre/roots/demo.pem",
		RunE: func(*cobra.Command, []string) error {
			c, _, err := a.load()
			if err != nil {
				return err
			}
			if c.CAPEM == "" {
				return &client.Error{Kind: client.Untrusted, Doing: "print the CA of " + c.Cluster, Message: "no CA is pinned yet", Hint: "run `cadre cluster connect` first"}
			}
			_, err = fmt.Fprint(a.Out, c.CAPEM)
			return err
		},
	}
}

func (a *App) clusterStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the coordinators' and the platform's view of the coordinators, and machines that will be out of date", Args: cobra.NoArgs,
		Long: `Shows the coordinators, and a line for each member whose machine Intel calls out of date:
in how many days it ends and why. A member whose machine Intel's early set calls out of
date already has a line with the date on which the standard set is expected to follow.
Each running coordinator proves itself again, and its machine has such a line by the trust
in the context; a coordinator sends no early set with its proof.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.load()
			if err != nil {
				return err
			}
			v := clusterView{Cluster: c.Cluster}
			var asked, listed error
			if v.Coordinator, v.Members, asked = a.askCluster(cmd.Context(), c); asked != nil {
				v.Problems = append(v.Problems, asked.Error())
			}
			if why := v.Coordinator.GetHalted(); why != "" {
				v.Problems = append(v.Problems, "halted: "+why)
			}
			if v.CVMs, listed = coordinators(cmd.Context(), c); listed != nil {
				v.Problems = append(v.Problems, listed.Error())
			}
			if asked == nil { // else each proof would fail for the same reason
				v.Backup = a.lastBackup(cmd.Context(), c)
				var unproven []error
				v.Coordinators, unproven = a.proveCoordinators(cmd.Context(), c, v.CVMs)
				for _, err := range unproven {
					v.Problems = append(v.Problems, err.Error())
				}
			}
			err = a.show(v, func(s render.Style) string {
				text := render.Cluster(s, c, v.Coordinator, v.CVMs) + render.LastBackup(s, v.Backup, a.now()) + render.Machines(s, slices.Concat(v.Coordinators, v.Members), a.now())
				for _, p := range v.Problems {
					text += s.Paint("problem: "+p, render.Bad) + "\n"
				}
				return text
			})
			if asked != nil {
				return errors.Join(silent{Code(asked)}, err)
			}
			return err
		},
	}
}

// askCluster asks a coordinator; info is nil when none answers.
func (a *App) askCluster(ctx context.Context, c client.Context) (info *apiv1.GetClusterResponse, members []policy.AdmissionStatus, err error) {
	cl, err := client.Dial(c, a.Dial)
	if err != nil {
		return nil, nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if info, err = cl.Cluster(ctx); err != nil {
		return nil, nil, err
	}
	members, err = cl.Admissions(ctx, "")
	return info, members, err
}

// proveCoordinators has each running coordinator prove itself, all at the same time: one after
// the other they would wait for one TDX quote each. Without a platform in the context the
// coordinator to which the gateway leads proves itself alone.
func (a *App) proveCoordinators(ctx context.Context, c client.Context, cvms []platform.Instance) ([]policy.AdmissionStatus, []error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	cvms = slices.DeleteFunc(slices.Clone(cvms), func(cvm platform.Instance) bool { return !cvm.Running() || cvm.InstanceID == "" })
	if len(cvms) == 0 {
		cvms = []platform.Instance{{Name: "the coordinator at the gateway"}}
	}
	proven, unproven := make([]policy.AdmissionStatus, len(cvms)), make([]error, len(cvms))
	var wg sync.WaitGroup
	for i, cvm := range cvms {
		wg.Go(func() {
			opts := a.Dial
			opts.Instance = cvm.InstanceID
			got, err := client.Attest(ctx, c, opts)
			if err != nil {
				unproven[i] = fmt.Errorf("%s: %w", cvm.Name, err)
				return
			}
			proven[i] = policy.MachineStatus(got.Slot, got.Claims.InstanceID, got.Claims.TCB, c.Trust.TCB, a.now())
		})
	}
	wg.Wait()
	proven = slices.DeleteFunc(proven, func(s policy.AdmissionStatus) bool { return s.Slot == "" })
	slices.SortFunc(proven, func(x, y policy.AdmissionStatus) int { return strings.Compare(x.Slot, y.Slot) })
	return proven, slices.DeleteFunc(unproven, func(err error) bool { return err == nil })
}

// coordinators lists the coordinators' CVMs; nil without a platform in the context.
func coordinators(ctx context.Context, c client.Context) ([]platform.Instance, error) {
	if c.Platform.Driver == "" {
		return nil, nil
	}
	api, _, err := genesis.OpenCloud(c.Platform, "")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	list, err := api.List(ctx, c.CoordinatorAppID)
	slices.SortFunc(list, func(x, y platform.Instance) int { return strings.Compare(x.Name, y.Name) })
	return list, err
}

func (a *App) clusterDelete() *cobra.Command {
	var yes string
	var timeout time.Duration
	c := &cobra.Command{
		Use: "delete", Short: "Delete a cluster's coordinators with their disks, and forget the cluster", Args: cobra.NoArgs,
		Long: `Deletes the coordinators' CVMs and their disks: every record of the cluster is lost,
and no workload can be admitted again. Workload CVMs are not deleted. The cluster's
name must be given with --confirm.`,
		Example: "  cadre --context demo cluster delete --confirm demo",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, path, err := a.load()
			if err != nil {
				return err
			}
			if yes != c.Cluster {
				return usagef("this deletes the coordinators and with them every record of the cluster: repeat with --confirm %s", c.Cluster)
			}
			api, _, err := genesis.OpenCloud(c.Platform, "")
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := genesis.Delete(ctx, api, c, a.say); err != nil {
				return fmt.Errorf("delete cluster %s: %w\nrun the same command again to continue", c.Cluster, err)
			}
			if err := genesis.RemoveContext(path); err != nil {
				return err
			}
			a.say(fmt.Sprintf("cluster %s is deleted and %s is removed", c.Cluster, filepath.Base(path)))
			return nil
		},
	}
	c.Flags().StringVar(&yes, "confirm", "", "the cluster's name, to say that you mean it")
	c.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long it may take")
	return c
}
