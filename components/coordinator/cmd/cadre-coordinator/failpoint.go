package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// failpointExit tells a test that the process ended where it was told to.
const failpointExit = 86

// failpoint ends the process the first time the named point is reached, once
// for the life of the disk, so that the restarted coordinator goes on. Whoever
// sets it can end the process anyway: it gives the environment no new power.
func failpoint(want, stateDir string, log *slog.Logger) func(string) {
	if want == "" {
		return nil
	}
	mark := filepath.Join(stateDir, "failpoint-"+filepath.Base(want))
	return func(name string) {
		if name != want {
			return
		}
		if _, err := os.Stat(mark); !errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			log.Error("failpoint not marked", "error", err)
			return
		}
		log.Warn("failpoint reached, the process ends", "failpoint", name)
		os.Exit(failpointExit)
	}
}
