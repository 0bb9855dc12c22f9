package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/core/audit"
)

func (a *App) auditCommand() *cobra.Command {
	var since time.Duration
	var object string
	c := &cobra.Command{
		Use: "audit", Short: "Audit: changes with their authors, in one chain of entries", Args: cobra.NoArgs,
		Long: `Lists the entries of the audit chain, oldest first: each act of an operator through the
API, the acts of the leader (accepted specs, rollouts, replacements, quarantines,
leaderships), and each edit of a spec or of a key below control/ in Consul KV. Consul does
not name the author of an edit.

An act and its entry are one transaction. Each entry names the digest of the entry before,
and the values of the record before and after by their SHA-256. The last 10,000 entries are
kept; the leader writes older ones to its log.`,
		Example: "  cadre audit --since 2h\n  cadre audit --since 0 --object postgres -o json\n  cadre audit export -o audit.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since < 0 {
				return usagef("--since %s: name the length of the past time, such as 2h; 0 lists all kept entries", since)
			}
			var from time.Time
			if since > 0 {
				from = a.now().Add(-since)
			}
			return a.withClient(func(cl *client.Client) error {
				list := []audit.Entry{}
				err := cl.Audit(cmd.Context(), 0, from, func(e audit.Entry) error {
					if e.About(object) {
						list = append(list, e)
					}
					return nil
				})
				if err != nil {
					return err
				}
				return a.show(list, func(s render.Style) string { return render.Audit(s, list) })
			})
		},
	}
	c.Flags().DurationVar(&since, "since", 24*time.Hour, "how far back; 0: all kept entries")
	c.Flags().StringVar(&object, "object", "", "only entries about this: a group, a slot, a key, or the begin of a key")
	c.AddCommand(a.auditExport(), a.auditVerify())
	return c
}

func (a *App) auditExport() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "export", Short: "Write the kept entries and the signed head to a file", Args: cobra.NoArgs,
		Long: `Writes one JSON document in each line: the kept entries, oldest first, and the end of the
chain, signed by the cluster CA. The file is verified, as ` + "`cadre audit verify`" + ` does.

Regular exports outside of the cluster are the proof against a chain that was written again:
compare each with the one before, by ` + "`cadre audit verify NEW --against OLD`" + `.`,
		Example: "  cadre audit export -o audit-2026-05-04.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("-o FILE is missing: name the file to write, or - for standard output")
			}
			cc, _, err := a.load()
			if err != nil {
				return err
			}
			return a.withClient(func(cl *client.Client) error {
				text, err := exportAudit(cmd.Context(), cl)
				if err != nil {
					return err
				}
				if file == "-" {
					_, err = a.Out.Write(text)
				} else {
					err = replace(file, text)
				}
				if err != nil {
					return err
				}
				x, err := parseExport(cc, file, text)
				if err != nil || file == "-" {
					return err
				}
				a.say(fmt.Sprintf("%s has %s", file, exported(x)))
				return nil
			})
		},
	}
	c.Flags().StringVarP(&file, "output", "o", "", "the file to write; - for standard output (required)")
	return c
}

// exportTries bounds the attempts while the leader removes the oldest entries.
const exportTries = 3

// exportAudit returns the content of an export.
func exportAudit(ctx context.Context, cl *client.Client) ([]byte, error) {
	for try := 1; ; try++ {
		var out bytes.Buffer
		write := json.NewEncoder(&out)
		head, err := cl.AuditHead(ctx)
		if err != nil {
			return nil, err
		}
		first := uint64(0)
		errEnd := errors.New("the end")
		err = cl.Audit(ctx, head.Head.Checkpoint.Number, time.Time{}, func(e audit.Entry) error {
			if e.Number > head.Head.Last.Number {
				return errEnd // it was entered after the signature
			}
			if first == 0 {
				first = e.Number
			}
			return write.Encode(e)
		})
		if err != nil && !errors.Is(err, errEnd) {
			return nil, err
		}
		if removed := first > head.Head.Checkpoint.Number+1; removed && try < exportTries {
			continue
		}
		if err := write.Encode(audit.HeadLine(head)); err != nil {
			return nil, err
		}
		return out.Bytes(), nil
	}
}

func (a *App) auditVerify() *cobra.Command {
	var against string
	c := &cobra.Command{
		Use: "verify FILE", Short: "Verify an export without a cluster", Args: cobra.ExactArgs(1),
		Long: `Verifies a file of ` + "`cadre audit export`" + ` with the CA in the cluster's context, and asks no
coordinator. It finds entries that were edited, left out, added, moved or back-dated, a file
that was cut, and a head of another cluster. With --against it also finds a chain that was
forked or written again since an earlier export.`,
		Example: "  cadre audit verify audit-2026-05-04.jsonl --against audit-2026-05-03.jsonl",
		RunE: func(_ *cobra.Command, args []string) error {
			cc, _, err := a.load()
			if err != nil {
				return err
			}
			x, err := readExport(cc, args[0])
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%s has %s", args[0], exported(x))
			if against != "" {
				earlier, err := readExport(cc, against)
				if err != nil {
					return err
				}
				if err := x.Continues(earlier); err != nil {
					return &client.Error{Kind: client.Untrusted, Doing: "compare " + args[0] + " with " + against, Message: err.Error()}
				}
				text += fmt.Sprintf("\nit continues %s, which ends at entry %d", against, earlier.Head.Head.Last.Number)
			}
			return a.show(map[string]any{"file": args[0], "entries": len(x.Entries), "signed_head": x.Head, "against": against}, func(s render.Style) string { return s.Line(text, render.Good) })
		},
	}
	c.Flags().StringVar(&against, "against", "", "an earlier export that the file must continue")
	return c
}

// maxExport bounds an export: all kept entries, with room for older coordinators that keep more.
const maxExport = 64 << 20

func readExport(cc client.Context, name string) (audit.Export, error) {
	file, err := os.Open(name)
	if err != nil {
		return audit.Export{}, fmt.Errorf("verify %s: %w", name, err)
	}
	defer file.Close() //nolint:errcheck // it was read only
	text, err := io.ReadAll(io.LimitReader(file, maxExport+1))
	if err != nil {
		return audit.Export{}, fmt.Errorf("verify %s: %w", name, err)
	}
	if len(text) > maxExport {
		return audit.Export{}, fmt.Errorf("verify %s: more than %d bytes: it is no export of the audit chain", name, maxExport)
	}
	return parseExport(cc, name, text)
}

func parseExport(cc client.Context, name string, text []byte) (audit.Export, error) {
	key, err := cc.CAKey()
	if err != nil {
		return audit.Export{}, err
	}
	x, err := audit.ParseExport(text, cc.ClusterID, key)
	if err != nil {
		return x, &client.Error{Kind: client.Untrusted, Doing: "verify " + name, Message: err.Error()}
	}
	return x, nil
}

// exported describes a verified export.
func exported(x audit.Export) string {
	signed := fmt.Sprintf("signed by the CA of cluster %s (%s) at %s", x.Head.Cluster, x.Head.ClusterID, x.Head.At.Format(time.RFC3339))
	if len(x.Entries) == 0 {
		return "no entries; the head is " + signed
	}
	first, last := x.Entries[0], x.Entries[len(x.Entries)-1]
	return fmt.Sprintf("entries %d to %d of the audit chain, from %s to %s, whole and unchanged; the head is %s",
		first.Number, last.Number, first.At.Format(time.RFC3339), last.At.Format(time.RFC3339), signed)
}
