package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"cadre.dev/cli/internal/diff"
	"cadre.dev/cli/internal/render"
	"cadre.dev/cli/registry"
	"cadre.dev/compose/pin"
)

type pinFlags struct {
	write, check, update bool
	timeout              time.Duration
}

// pinned is the outcome, also the form of -o json.
type pinned struct {
	File    string          `json:"file"`
	Changed bool            `json:"changed"`
	Written bool            `json:"written"`
	Images  []render.Pinned `json:"images"`
}

func (a *App) composePin() *cobra.Command {
	var f pinFlags
	c := &cobra.Command{
		Use: "pin FILE", Short: "Add the digests of a compose file's images to their tags", Args: cobra.ExactArgs(1),
		Long: `Asks the registry of each image for the digest that its tag has now, and appends
it: name:tag@sha256:... The digest of an index is kept as it is; it must have an image
for linux/amd64. Credentials are those of docker login. Nothing else in the file
changes, comments and quotes stay.

Without -w the change is shown and nothing is written; from standard input (-) the
edited text goes to standard output with -w. --check asks no registry unless --update
is given, and ends with exit code 1 when the file would change.`,
		Example: "  cadre compose pin docker-compose.yaml\n  cadre compose pin -w docker-compose.yaml\n  cadre compose pin --check docker-compose.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.write && f.check {
				return usagef("-w writes and --check does not: give one of them")
			}
			return a.pin(cmd.Context(), args[0], f)
		},
	}
	c.Flags().BoolVarP(&f.write, "write", "w", false, "write the file in place")
	c.Flags().BoolVar(&f.check, "check", false, "write nothing; exit code 1 when something would change")
	c.Flags().BoolVar(&f.update, "update", false, "also resolve the tags of images that have a digest")
	c.Flags().DurationVar(&f.timeout, "timeout", 30*time.Second, "how long each image's registry may take")
	c.ValidArgsFunction = completeFiles("yaml", "yml")
	return c
}

func (a *App) pin(ctx context.Context, name string, f pinFlags) error {
	text, err := a.input(name)
	if err != nil {
		return err
	}
	images, err := pin.Images(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	out := pinned{File: name, Images: []render.Pinned{}}
	references := map[string]string{}
	var errs []error
	for _, i := range images {
		one := render.Pinned{Service: i.Service, Line: i.Line, Old: i.Reference, New: i.Reference}
		switch resolved, err := a.resolve(ctx, i, f); {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s:%d:%d: %w", name, i.Line, i.Column, err))
		case resolved != i.Reference:
			one.New, out.Changed = resolved, true
			references[i.Service] = resolved
		}
		out.Images = append(out.Images, one)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	edited := text
	if !f.check {
		if edited, err = pin.Write(text, references); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if f.write && name == "-" {
		_, err := a.Out.Write(edited)
		return err
	}
	if f.write && out.Changed {
		if err := replace(name, edited); err != nil {
			return err
		}
		out.Written = true
	}
	if err := a.show(out, func(s render.Style) string {
		lines := []string{}
		if !f.write && !f.check && out.Changed {
			lines = diff.Lines(string(text), string(edited))
		}
		return render.Pins(s, name, out.Images, lines)
	}); err != nil {
		return err
	}
	if f.check && out.Changed {
		return silent{ExitError}
	}
	return nil
}

// unresolved replaces the digest, which --check does not resolve.
const unresolved = "@sha256:..."

func (a *App) resolve(ctx context.Context, i pin.Image, f pinFlags) (string, error) {
	switch {
	case i.Pinned() && (!f.update || !i.HasTag()): // without a tag there is nothing to ask for
		return i.Reference, nil
	case f.check && !f.update:
		return i.Tagged() + unresolved, nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	digest, err := registry.Resolver{}.Resolve(ctx, i.Tagged())
	if err != nil {
		return "", err
	}
	return i.Tagged() + "@" + digest, nil
}

// replace writes a file whole or not at all, with the rights that it had; a new one may
// be read by all.
func replace(name string, text []byte) error {
	mode := fs.FileMode(0o644)
	info, err := os.Stat(name)
	switch {
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("write %s: %w", name, err)
	}
	temp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Chmod(mode), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
