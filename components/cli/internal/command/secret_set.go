package command

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/secret"
)

func (a *App) secretSet() *cobra.Command {
	var file, reason string
	var dryRun bool
	c := &cobra.Command{
		Use: "set GROUP/NAME --from-file FILE", Short: "Give the value of a secret with source = \"operator\"", ValidArgsFunction: a.completeSecret,
		Long: `Seals a value on this machine and gives it to the coordinators as the next epoch of the secret.
Before that, a coordinator proves its key under the trust of the context, as it does for
"cadre cluster connect"; without that proof the command seals nothing. The records keep the
ciphertext, which only coordinators of this cluster open. Each member gets the value as
/run/mesh/secrets/NAME, within about a second.

The value is the content of FILE, byte by byte, up to 64 KiB; a line end at the end is part of
it. "-" reads the standard input. Run the command again for another value.`,
		Example: "  cadre secret set web/s3-key --from-file s3.key\n  pass show s3 | tr -d '\\n' | cadre secret set web/s3-key --from-file - --reason \"new key of May\"",
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 1:
				return nil
			case 0:
				return usagef("name the secret: cadre secret set GROUP/NAME --from-file FILE")
			}
			return usagef("a value on the command line stays in the shell's history and in the list of processes: put the value into a file, or pipe it, and use --from-file")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			groupName, name, both := strings.Cut(args[0], "/")
			if !both || groupName == "" || name == "" {
				return usagef("%q names no secret: write GROUP/NAME, as `cadre secret list` does", args[0])
			}
			value, err := a.readValue(file)
			if err != nil {
				return err
			}
			return a.withClient(func(cl *client.Client) error {
				done, err := cl.SetSecret(cmd.Context(), groupName, name, value, reason, dryRun)
				if err != nil {
					return err
				}
				return a.show(done, func(s render.Style) string { return render.SecretSet(s, done, lineEnd(value)) })
			})
		},
	}
	c.Flags().StringVar(&file, "from-file", "", "file with the value; - reads the standard input")
	c.Flags().StringVar(&reason, "reason", "", "reason, for the record")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "prove the key and check the value, and change nothing")
	return c
}

// readValue reads a value of bounded size.
func (a *App) readValue(path string) (secret.Value, error) {
	var in io.Reader
	switch path {
	case "":
		return secret.Value{}, usagef("--from-file is missing: the file with the value, or - for the standard input")
	case "-":
		if in = a.In; in == nil {
			in = os.Stdin
		}
		path = "the standard input"
	default:
		file, err := os.Open(path)
		if err != nil {
			return secret.Value{}, fmt.Errorf("read the value: %w", err)
		}
		defer file.Close() //nolint:errcheck // read only
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, group.MaxSealedBytes+1))
	if err != nil {
		return secret.Value{}, fmt.Errorf("read the value from %s: %w", path, err)
	}
	if p := group.SealedProblem(len(text)); p != "" {
		return secret.Value{}, usagef("%s %s", path, p)
	}
	return secret.New(text), nil
}

// lineEnd reports whether the value ends with a line end.
func lineEnd(value secret.Value) bool { return strings.HasSuffix(value.RevealString(), "\n") }
