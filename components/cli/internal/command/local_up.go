package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cadre.dev/cli/internal/localcloud"
	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
)

// daemonFlags are the flags of `cadre local up` that are passed to the daemon.
var daemonFlags = []string{"images", "layout", "image-store", "boot-delay", "nat", "udp", "rendezvous", "api", "gateway", "registry", "platform", "hosts", "kms-auth"}

func (a *App) localUp(dir *string) *cobra.Command {
	o := localcloud.StartOptions{}
	var timeout time.Duration
	var extra []string
	var programs bool
	c := &cobra.Command{
		Use: "up [clusters/NAME]", Short: "Start the local cloud, or bring it back as it was", Args: cobra.MaximumNArgs(1),
		Long: `Starts the local cloud of the state folder. One that was there before comes back at
the same addresses and with the flags that it was last started with, unless others are
given; the CVMs that ran boot on their disks.

A new cloud that is given neither --images nor --layout takes the images of .out/images of
the checkout that this program, the cluster's folder or the current folder is in. With
--programs it takes the checkout's programs that compose/programs.json names in their
place: a program that was built again runs at the next start of its service. With the folder of a
cluster the commands that make it are printed, filled in.`,
		Example: "  cadre local up clusters/postgres\n  cadre local up --programs --nat symmetric",
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			// The daemon runs in its own folder, so relative paths become absolute.
			if o.Dir, err = filepath.Abs(*dir); err != nil {
				return fmt.Errorf("state folder: %w", err)
			}
			result := started{dir: o.Dir}
			places := []string{"", "."}
			if len(args) == 1 {
				cluster, err := localcloud.ReadCluster(args[0])
				if err != nil {
					return err
				}
				result.cluster, places = &cluster, []string{cluster.Dir, "", "."}
			}
			result.checkout = localcloud.Checkout(places...)
			if o.Flags, err = changedFlags(cmd.Flags()); err != nil {
				return err
			}
			more, err := defaults(o.Dir, result.checkout, programs, append(slices.Clone(o.Flags), extra...))
			if err != nil {
				return err
			}
			o.Flags = slices.Concat(o.Flags, more, extra)
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if result.info, result.began, err = localcloud.Start(ctx, o); err != nil {
				return err
			}
			if result.moved, err = a.readdress(result.info); err != nil {
				return err
			}
			result.look(ctx)
			pinned, err := result.pinned()
			if err != nil {
				return err
			}
			return a.show(map[string]any{
				"started": result.began, "cloud": localcloud.CloudFile(o.Dir), "platform": result.info.Platform, "api_url": result.info.APIURL, "registry": result.info.Registry,
				"images": result.images, "pinned": pinned, "gateway_ca_file": result.info.GatewayCAFile, "contexts_changed": result.moved,
			}, func(render.Style) string { return result.text() })
		},
	}
	c.Flags().String("platform", "phala", "the platform's API that the cloud speaks: phala, or vmm for hosts with dstack-vmm")
	c.Flags().String("hosts", "host-a,host-b", "the hosts of platform vmm, as NAME or NAME=HOST:PORT")
	c.Flags().String("kms-auth", "", "base URL of the webhook that the KMS asks before it gives keys to a CVM")
	c.Flags().String("images", "", "file that maps image references to programs of this machine, which need no image")
	c.Flags().String("layout", "", "OCI layout folder whose images the cloud serves and CVMs boot")
	c.Flags().String("image-store", "", "folder where images are unpacked; several clouds may share it (default: in the state folder)")
	c.Flags().BoolVar(&programs, "programs", false, "let a new cloud run the checkout's programs in place of images, for development")
	c.Flags().Duration("boot-delay", 3*time.Second, "how long a boot takes")
	c.Flags().String("nat", "none", "NAT in front of each CVM: none, full-cone, address-restricted, port-restricted, symmetric")
	c.Flags().String("udp", "open", "whether the NATs let UDP pass: open, blocked")
	c.Flags().String("rendezvous", "", "a cadre-rendezvous program to run in the cloud; with it CVMs find direct paths")
	c.Flags().String("api", "", "host:port of the API (default: the one that this cloud had, at first a free port)")
	c.Flags().String("gateway", "", "host:port of the gateway (default: as for --api)")
	c.Flags().String("registry", "", "host:port of the registry of images (default: as for --api)")
	c.Flags().StringVar(&o.Program, "daemon", "", "the cadre-local program (default: next to this one, then in PATH)")
	c.Flags().StringArrayVar(&extra, "daemon-flag", nil, "one more argument for the daemon; may be repeated")
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long the start may take")
	return c
}

// changedFlags are the daemon's flags that were given. The daemon knows the others.
func changedFlags(given *pflag.FlagSet) ([]string, error) {
	var flags []string
	var errs []error
	given.Visit(func(f *pflag.Flag) {
		if !slices.Contains(daemonFlags, f.Name) {
			return
		}
		value := f.Value.String()
		if slices.Contains([]string{"images", "layout", "image-store"}, f.Name) && value != "" {
			path, err := filepath.Abs(value)
			if err != nil {
				errs = append(errs, fmt.Errorf("--%s: %w", f.Name, err))
			}
			value = path
		}
		flags = append(flags, "--"+f.Name, value)
	})
	return flags, errors.Join(errs...)
}

// readdress corrects the contexts of this machine whose clusters are on the cloud and have other
// addresses of it, and returns their files. The cloud's key identifies the contexts.
func (a *App) readdress(info localcloud.Info) ([]string, error) {
	changed := []string{}
	for _, path := range a.knownContexts() {
		c, err := client.LoadContext(path)
		if err != nil || c.Platform.APIKey != info.APIKey {
			continue // a context of another cluster, or a context that this command cannot correct
		}
		if c.Gateway.Address == info.GatewayAddress && c.Platform.APIURL == info.APIURL {
			continue
		}
		c.Gateway.Address, c.Platform.APIURL = info.GatewayAddress, info.APIURL
		if err := c.Save(path); err != nil {
			return changed, err
		}
		changed = append(changed, path)
	}
	return changed, nil
}

// knownContexts are the files of all contexts of this machine, and of the context that --context or
// CADRE_CONTEXT names.
func (a *App) knownContexts() []string {
	paths := []string{}
	if path, err := client.Path(a.context); err == nil {
		paths = append(paths, path)
	}
	names, err := client.Contexts()
	if err != nil {
		return paths
	}
	for _, name := range names {
		if path, err := client.Path(name); err == nil && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

func (a *App) localDown(dir *string) *cobra.Command {
	var timeout time.Duration
	var program string
	c := &cobra.Command{
		Use: "down", Short: "Stop the local cloud, also one of another user; its CVMs stop, their disks stay", Args: cobra.NoArgs,
		Long: `Ends the daemon of the state folder, however it was started, and removes what one left
that died. A daemon that does not end within the time is killed. Nothing to stop is
success.`,
		Example: "  cadre local down",
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := filepath.Abs(*dir)
			if err != nil {
				return fmt.Errorf("state folder: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			did, err := localcloud.Stop(ctx, path, program)
			if err != nil {
				return err
			}
			return a.show(map[string]any{"stopped": len(did.Daemons) > 0, "daemons": did.Daemons, "killed": did.Killed, "cleaned": did.Cleaned}, func(render.Style) string {
				return stoppedText(did, path)
			})
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 60*time.Second, "how long it may take; then the daemon is killed")
	c.Flags().StringVar(&program, "daemon", "", "the cadre-local program (default: next to this one, then in PATH)")
	return c
}

func stoppedText(did localcloud.Stopped, dir string) string {
	if !did.Anything() {
		return "no local cloud was running\n"
	}
	text := ""
	for _, pid := range did.Daemons {
		how := "stopped"
		if did.Killed {
			how = "killed, since it did not end when it was asked to"
		}
		text += fmt.Sprintf("local cloud (pid %d) %s; its state is in %s\n", pid, how, dir)
	}
	if did.Cleaned != "" {
		text += did.Cleaned + "; removed\n"
	}
	return text
}
