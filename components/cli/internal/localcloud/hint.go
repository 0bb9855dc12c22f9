package localcloud

import (
	"os"
	"path/filepath"

	"cadre.dev/client/format"
)

// DefaultDir is the state folder of a command that is given none.
func DefaultDir() string {
	if dir := os.Getenv("CADRE_LOCAL_STATE"); dir != "" {
		return dir
	}
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "cadre-local"
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "cadre", "local")
}

// At follows the words of a `cadre local` command that is printed, so that it means the cloud of dir
// wherever a bare one would look: with its space, and empty where both are the same.
func At(dir string) string {
	asked, err := filepath.Abs(dir)
	usual, errUsual := filepath.Abs(DefaultDir())
	if err == nil && errUsual == nil && asked == usual {
		return ""
	}
	return " --state " + format.Word(dir)
}
