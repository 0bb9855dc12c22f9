package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
)

// failpointExit is the exit code at a failpoint, so that a test can recognise it.
const failpointExit = 86

// maxFailpoint bounds the name in a failpoint file.
const maxFailpoint = 64

// failpoint ends the process once, at the point named in the file. It removes the file first, so
// that the restarted coordinator continues. It reads the file at each point, so that a test can arm
// a coordinator that leads already. Only a measured command line turns this on.
func failpoint(file string, log *slog.Logger) func(string) {
	if file == "" {
		return nil
	}
	return func(name string) {
		text, err := os.ReadFile(file)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				log.Error("failpoint not read", "error", err)
			}
			return
		}
		if len(text) > maxFailpoint || strings.TrimSpace(string(text)) != name {
			return
		}
		if err := os.Remove(file); err != nil {
			log.Error("failpoint not disarmed", "error", err)
			return
		}
		log.Warn("failpoint reached, the process ends", "failpoint", name)
		os.Exit(failpointExit)
	}
}
