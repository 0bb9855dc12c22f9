package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
)

// maxInput bounds each file that the compose commands read, in bytes.
const maxInput = 1 << 20

func (a *App) composeCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "compose", Short: "Compose files: check that their hash fixes the code that runs",
		Long: `dstack measures the raw bytes of app-compose.json, which contains the compose file.
The measurement fixes the code that runs only if the text has literal digests and
takes nothing that matters from the environment.

These commands ask no cluster. FILE may be - for standard input.`,
	}
	c.AddCommand(a.composeHash(), a.composeLint(), a.composePin())
	return c
}

// input reads a whole file, or standard input for "-", and names it in errors.
func (a *App) input(name string) ([]byte, error) {
	in, shown := a.In, name
	if name == "-" {
		shown = "standard input"
		if in == nil {
			in = os.Stdin
		}
	} else {
		f, err := os.Open(name)
		if err != nil {
			var path *fs.PathError
			if errors.As(err, &path) {
				err = path.Err
			}
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		defer f.Close()
		in = f
	}
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(in, maxInput+1)); err != nil {
		return nil, fmt.Errorf("read %s: %w", shown, err)
	}
	if b.Len() > maxInput {
		return nil, fmt.Errorf("read %s: larger than %d bytes", shown, maxInput)
	}
	return b.Bytes(), nil
}

// completeFiles offers files with these endings.
func completeFiles(endings ...string) completion {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return endings, cobra.ShellCompDirectiveFilterFileExt
	}
}
