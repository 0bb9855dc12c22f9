package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
)

func (a *App) operatorCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "operator", Short: "Operators: their roles, and the end of their access",
		Long: `Each operator has a token with a role and an end:

  view     reads everything
  operate  changes specs and the switches of all groups, or of --groups
  approve  approves revisions, and decides about admissions
  admin    all of this, and operators

docs/reference/kv.md lists the records of each role. A token works in cadre, in
Terraform and in Consul's own tools. The coordinators' trust file names the token
of the operator "first", an admin without an end.`,
	}
	c.AddCommand(a.operatorAdd(), a.operatorList(), a.operatorShow(), a.operatorRotate(), a.operatorRemove())
	return c
}

// newToken is where a new token goes, and how long it lasts.
type newToken struct {
	life string
	file string
}

func (n *newToken) bind(c *cobra.Command) {
	c.Flags().StringVar(&n.life, "for", "90d", "how long the token lasts, e.g. 90d or 12h; at most 366d")
	c.Flags().StringVar(&n.file, "file", "", "write a context file with the token, for the operator alone to read; default: print the token")
}

// until returns the end of the token.
func (n *newToken) until(now time.Time) (time.Time, error) {
	life, err := time.ParseDuration(n.life)
	if days, isDays := strings.CutSuffix(n.life, "d"); isDays {
		var count uint64
		count, err = strconv.ParseUint(days, 10, 16)
		life = time.Duration(count) * 24 * time.Hour
	}
	if err != nil || life <= 0 {
		return time.Time{}, usagef("--for %q is not a time above 0: write it like 90d or 12h", n.life)
	}
	return now.Add(life).UTC().Truncate(time.Second), nil
}

// issued is the answer to a command that drew a token.
type issued struct {
	client.Operator
	Token string `json:"token,omitempty"`
	File  string `json:"file,omitempty"`
}

// issue draws a token, keeps it in the file if one is named, and has send record its digest. The file
// is written first, so that no recorded token is lost.
func (a *App) issue(n newToken, send func(cl *client.Client, token string, expires time.Time) (client.Operator, error)) error {
	expires, err := n.until(a.now())
	if err != nil {
		return err
	}
	return a.withClient(func(cl *client.Client) error {
		token, err := client.NewToken()
		if err != nil {
			return err
		}
		if n.file != "" {
			if _, err := os.Stat(n.file); !errors.Is(err, fs.ErrNotExist) {
				return usagef("--file %s exists already: name a new file", n.file)
			}
			if err := cl.Context().ForOperator(token).Save(n.file); err != nil {
				return err
			}
		}
		o, err := send(cl, token, expires)
		if err != nil {
			if n.file != "" {
				err = errors.Join(err, os.Remove(n.file))
			}
			return err
		}
		out := issued{Operator: o, File: n.file}
		if n.file == "" {
			out.Token = token
		}
		return a.show(out, func(s render.Style) string { return render.IssuedToken(s, o, out.Token, out.File, a.now()) })
	})
}

func (a *App) operatorAdd() *cobra.Command {
	var n newToken
	var o client.Operator
	c := &cobra.Command{
		Use: "add NAME", Short: "Add an operator with a token of a role", Args: cobra.ExactArgs(1),
		Long: `Draws a token on this machine and sends its SHA-256, the role, the groups and the end.
The token is created in Consul at its first use. It ends in time, and a deleted token is
never created again.`,
		Example: "  cadre operator add ann --role operate --groups postgres --for 90d --file ann.json\n  cadre --context ./ann.json operator show",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Name = args[0]
			if o.Role == "" {
				return usagef("--role is missing: use view, operate, approve or admin")
			}
			if cmd.Flags().Changed("groups") && len(o.Groups) == 0 {
				return usagef("--groups names no group: leave it out to cover all groups")
			}
			return a.issue(n, func(cl *client.Client, token string, expires time.Time) (client.Operator, error) {
				o.Expires = expires
				return cl.AddOperator(cmd.Context(), o, token)
			})
		},
	}
	c.Flags().StringVar(&o.Role, "role", "", "view, operate, approve or admin (required)")
	c.Flags().StringSliceVar(&o.Groups, "groups", nil, "groups of the role operate, e.g. postgres,web (default: all)")
	n.bind(c)
	completeOr(c.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"view", "operate", "approve", "admin"}, cobra.ShellCompDirectiveNoFileComp)))
	completeOr(c.RegisterFlagCompletionFunc("groups", a.completeGroup))
	return c
}

func (a *App) operatorList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List operators with role, groups, end and first use", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(cl *client.Client) error {
				list, err := cl.Operators(cmd.Context())
				if err != nil {
					return err
				}
				return a.show(list, func(s render.Style) string { return render.Operators(s, list, a.now()) })
			})
		},
	}
}

func (a *App) operatorShow() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the operator whose token the context has", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(cl *client.Client) error {
				own, err := cl.OwnOperator(cmd.Context())
				if err != nil {
					return err
				}
				return a.show(own, func(s render.Style) string { return render.Operators(s, []client.Operator{own}, a.now()) })
			})
		},
	}
}

func (a *App) operatorRotate() *cobra.Command {
	var n newToken
	c := &cobra.Command{
		Use: "rotate NAME", Short: "Draw another token for an operator", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeOperator,
		Long: `Draws another token on this machine and sends its SHA-256 and its end. The present token
works until the first use of the new one, or until its own end.`,
		Example: "  cadre operator rotate ann --file ann-2.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.issue(n, func(cl *client.Client, token string, expires time.Time) (client.Operator, error) {
				return cl.RotateOperator(cmd.Context(), args[0], token, expires)
			})
		},
	}
	n.bind(c)
	return c
}

func (a *App) operatorRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "End an operator's access at once, on every coordinator", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeOperator,
		Long: `Deletes the token in Consul and the record of the operator. An operator cannot remove
itself, and the last admin whose token is in use stays. The name "first" removes the
token of the coordinators' trust file permanently: another one needs another digest there.`,
		Example: "  cadre operator remove ann",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(cl *client.Client) error {
				gone, err := cl.RemoveOperator(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.show(gone, func(render.Style) string {
					return fmt.Sprintf("operator %s (%s) is removed; the token works no more\n", gone.Name, gone.Role)
				})
			})
		},
	}
}

func (a *App) completeOperator(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.ask(cmd, func(ctx context.Context, cl *client.Client) ([]string, error) {
		list, err := cl.Operators(ctx)
		names := []string{}
		for _, one := range list {
			names = append(names, one.Name)
		}
		slices.Sort(names)
		return names, err
	})
}
