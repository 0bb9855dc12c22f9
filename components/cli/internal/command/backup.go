package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/genesis"
	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/core/backup"
)

func (a *App) clusterBackup() *cobra.Command {
	var path string
	var force bool
	c := &cobra.Command{
		Use: "backup", Short: "Save the cluster's records in a file, for a restore", Args: cobra.NoArgs,
		Long: `Saves Cadre's records in one file that only coordinators of this cluster accept: specs,
slots, policies, approvals, revocations, floors, epochs of secrets, ciphertexts of operators'
secrets, and open operations. The file has no token and no secret in the clear, and neither the data nor the Consul keys of workloads. Let a
timer run the command, and keep the files away from the platform. "cadre cluster status" shows
the age of the last backup. The token needs the right to write cadre/v1/control/backup.`,
		Example: "  cadre cluster backup -o demo-$(date +%F).backup",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				return usagef("-o FILE is missing: where the backup goes")
			}
			if _, err := os.Lstat(path); err == nil && !force {
				return usagef("%s exists: name another file, or overwrite it with --force", path)
			}
			return a.withClient(func(cl *client.Client) error {
				ctx, cancel := context.WithTimeout(cmd.Context(), backupTime)
				defer cancel()
				got, err := cl.Backup(ctx)
				if err != nil {
					return err
				}
				if err := saveBackup(path, got.File, force); err != nil {
					return fmt.Errorf("save the backup: %w", err)
				}
				_, err = fmt.Fprint(a.Out, render.Backup(a.style(), path, got))
				return err
			})
		},
	}
	// It takes the place of the global -o, because the command has one form of output.
	c.Flags().StringVarP(&path, "output", "o", "", "the file to write")
	c.Flags().BoolVar(&force, "force", false, "overwrite an existing file")
	return c
}

// backupTime bounds a backup, as coordinators do.
const backupTime = 10 * time.Minute

// saveBackup writes a file as a whole or not at all, readable by the owner alone.
func saveBackup(path string, file []byte, force bool) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if gone := os.Remove(tmp.Name()); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}()
	_, err = tmp.Write(file)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if force {
		return os.Rename(tmp.Name(), path)
	}
	return os.Link(tmp.Name(), path) // fails if the file appeared meanwhile
}

func (a *App) clusterRestore() *cobra.Command {
	var f fileFlags
	var cluster, discard string
	var timeout time.Duration
	c := &cobra.Command{
		Use: "restore FILE", Short: "Make the coordinators of a cluster that lost all of them, from a backup", Args: cobra.ExactArgs(1),
		Long: `For a cluster that lost the disks of all coordinators. Makes new coordinators of the same app
with empty disks, waits until one proves itself, and sends them the backup. They continue under
the same cluster ID, with the same keys, CA and secrets. Until the restore is complete, the new
coordinators serve nothing else.

Needs the context of the cluster, and the cluster file of "cadre cluster create". A file of
another cluster, a truncated file or another format is refused before anything is made; an
edited file is refused by the coordinators. Run the command again after an interruption: it
continues. The restored cluster is halted until "cadre cluster accept-restore".`,
		Example: "  cadre cluster restore demo-2026-05-04.backup --cluster-file cluster.hcl",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cluster == "" {
				return usagef("--cluster-file is missing: the file of `cadre cluster create`")
			}
			one, err := readCluster(cluster, f)
			if err != nil {
				return err
			}
			file, err := readBackup(args[0])
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
			sum := sha256.Sum256(file)
			done, err := genesis.Restore(ctx, genesis.Options{Cluster: one, ContextPath: path, Cloud: api, APIKey: key, Say: a.say, Dial: a.Dial}, file, hex.EncodeToString(sum[:]), discard)
			if err != nil {
				hint := "\nrun the same command again to continue"
				if backup.CodeOf(err) != "" || client.KindOf(err) == client.Invalid {
					hint = ""
				}
				return fmt.Errorf("restore cluster %s: %w%s", one.Name, err, hint)
			}
			return a.show(done, func(s render.Style) string {
				return render.RestoreContent(s, done.Header, a.now()) + "\n" + render.RestoreNext(one.Name)
			})
		},
	}
	c.Flags().StringVar(&cluster, "cluster-file", "", "the cluster `file` of cadre cluster create (required)")
	c.Flags().StringVar(&discard, "delete-existing", "", "delete the coordinators that exist, with their disks, before the restore; the cluster's name confirms it")
	c.Flags().StringArrayVar(&f.vars, "var", nil, "name=value for var.name in the file; may be repeated")
	c.Flags().StringArrayVar(&f.varFiles, "var-file", nil, "file of name = \"value\" lines; may be repeated")
	c.Flags().DurationVar(&timeout, "timeout", 20*time.Minute, "how long it may take in all")
	return c
}

// readBackup reads a file of bounded size.
func readBackup(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the backup: %w", err)
	}
	defer file.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(io.LimitReader(file, backup.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the backup: %w", err)
	}
	return text, nil
}

// lastBackup asks for the last backup; nil: no coordinator answers, or this one is older than the
// command.
func (a *App) lastBackup(ctx context.Context, c client.Context) *client.LastBackup {
	cl, err := client.Dial(c, a.Dial)
	if err != nil {
		return nil
	}
	defer cl.Close()
	last, err := cl.LastBackup(ctx)
	if err != nil {
		return nil
	}
	return &last
}
