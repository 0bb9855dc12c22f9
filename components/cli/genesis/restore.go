package genesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cadre.dev/client"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/backup"
)

// Restored is the result of Restore.
type Restored struct {
	Header backup.Header `json:"header"`
	SHA256 string        `json:"sha256"`
	// Already: an earlier run restored this file.
	Already bool `json:"already,omitempty"`
}

// Restore makes the coordinators of a cluster that lost all of them, and sends them a backup. They
// continue under the same cluster ID. It continues after an interruption, and after a file that the
// coordinators refused.
// discard is the cluster's name if existing coordinators are to be deleted first; "": they are an
// error.
func Restore(ctx context.Context, o Options, file []byte, sum, discard string) (Restored, error) {
	o.poll()
	out := Restored{SHA256: sum}
	c, header, err := checkRestore(o, file, discard)
	if err != nil {
		return out, err
	}
	out.Header = header
	if c, err = prepare(ctx, o); err != nil {
		return out, err
	}
	co, err := facts(o, c)
	if err != nil {
		return out, err
	}
	if !strings.Contains(co.Compose, appcompose.RestoreClusterIDEnv) {
		return out, fmt.Errorf("coordinator.compose: it does not pass %s to the coordinator, which would create a new cluster: pass it as the shipped compose/coordinator.yaml does", appcompose.RestoreClusterIDEnv)
	}
	if c, err = makeRoom(ctx, o, c, discard, co.Replicas); err != nil {
		return out, err
	}
	if co.Env == nil {
		co.Env = map[string]string{}
	}
	co.Env[appcompose.RestoreClusterIDEnv] = c.ClusterID
	cvms, c, err := deploy(ctx, o, c, co)
	if err != nil {
		return out, err
	}
	if err := running(ctx, o, c, cvms); err != nil {
		return out, err
	}
	if c, err = Pin(ctx, o, c); err != nil {
		return out, err
	}
	if out.Already, err = send(ctx, o, c, file, sum); err != nil {
		return out, err
	}
	c.Restoring = false
	return out, c.Save(o.ContextPath)
}

// checkRestore makes all checks that need no platform and no coordinator.
func checkRestore(o Options, file []byte, discard string) (c client.Context, h backup.Header, err error) {
	c, err = client.LoadContext(o.ContextPath)
	switch {
	case errors.Is(err, client.ErrNoContext):
		return c, h, fmt.Errorf("a restore needs the context of cluster %s, with its app, its cluster ID and its operator token: put a copy of the file at %s", o.Cluster.Name, o.ContextPath)
	case err != nil:
		return c, h, err
	case c.ClusterID == "" || c.CAPEM == "":
		return c, h, fmt.Errorf("context %s has no cluster ID: the coordinators were never proven from here; use a context of the cluster as it was", o.ContextPath)
	case discard != "" && discard != c.Cluster:
		return c, h, fmt.Errorf("delete-existing: %q is not the name of this cluster, %s", discard, c.Cluster)
	}
	h, err = backup.Inspect(file, backup.Expect{Cluster: c.Cluster, ClusterID: c.ClusterID})
	return c, h, err
}

// makeRoom returns when no coordinator exists except those of an earlier run.
func makeRoom(ctx context.Context, o Options, c client.Context, discard string, replicas int) (client.Context, error) {
	found, err := byName(ctx, o.Cloud, c, replicas)
	if err != nil {
		return c, err
	}
	if discard != "" && len(found) > 0 {
		if err := Delete(ctx, o.Cloud, c, o.Say); err != nil {
			return c, err
		}
		found, c.Restoring = nil, false
	}
	if len(found) > 0 && !c.Restoring {
		var names []string
		for name := range found {
			names = append(names, name)
		}
		slices.Sort(names)
		return c, fmt.Errorf("coordinators exist: %s. A restore is for a cluster that lost the disks of all coordinators. If a disk exists, start its coordinator instead. "+
			"Otherwise repeat with --delete-existing %s, which deletes these CVMs with their disks", strings.Join(names, ", "), c.Cluster)
	}
	c.Restoring = true
	return c, c.Save(o.ContextPath)
}

// send sends the file until a coordinator has restored it. The coordinators first elect a leader of
// their store.
func send(ctx context.Context, o Options, c client.Context, file []byte, sum string) (already bool, err error) {
	cl, err := client.Dial(c, o.Dial)
	if err != nil {
		return false, err
	}
	defer cl.Close()
	o.Say(fmt.Sprintf("sending the backup, %d bytes", len(file)))
	said, tenth := "", -1
	for {
		err := cl.Restore(ctx, file, func(done, all int) {
			if now := 10 * done / max(all, 1); now != tenth {
				tenth = now
				o.Say(fmt.Sprintf("%d of %d records are written", done, all))
			}
		})
		if err == nil {
			return false, nil
		}
		// The answer of an earlier attempt may be lost.
		if last, asked := cl.LastBackup(ctx); asked == nil {
			if last.RestoredSHA256 == sum {
				return true, nil
			}
			return false, fmt.Errorf("the coordinators have records already, of another origin than this file: nothing was restored: %w", err)
		}
		if k := client.KindOf(err); k != client.Unavailable && k != client.Timeout && k != client.Internal && k != client.Conflict && !strings.Contains(err.Error(), "ALREADY_RESTORED") {
			return false, err
		}
		if text := err.Error(); text != said {
			said = text
			o.Say("the coordinators do not take the backup yet: " + firstLine(text))
		}
		if !pause(ctx, o.Poll) {
			return false, fmt.Errorf("%w; last answer: %w", context.Cause(ctx), err)
		}
	}
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}
