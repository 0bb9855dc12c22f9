package container

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// meshEnv is the agent's part of this process's environment. Not safe for concurrent use.
type meshEnv struct {
	mesh string
	// taken are the names of the last read.
	taken []string
}

// take loads the agent's variables into the environment, and unsets removed variables.
func (e *meshEnv) take() error {
	path := filepath.Join(e.mesh, "env")
	text, err := readFile(path)
	if err != nil {
		return err
	}
	vars, err := parseEnv(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	gone := e.taken
	e.taken = nil
	for _, v := range vars {
		if err := os.Setenv(v.name, v.value); err != nil {
			return err
		}
		e.taken = append(e.taken, v.name)
	}
	for _, name := range gone {
		if slices.Contains(e.taken, name) {
			continue
		}
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	return nil
}

// readFile reads a plain file. Other containers mount the agent's folder, too: readFile rejects a
// file that blocks.
func readFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read only
	if at, err := f.Stat(); err != nil || !at.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a plain file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxMeshFileSize+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxMeshFileSize {
		return "", fmt.Errorf("%s has more than %d bytes", path, maxMeshFileSize)
	}
	return string(data), nil
}

type variable struct{ name, value string }

// parseEnv reads the agent's environment for a POSIX shell: NAME='value' in each line, a quote in a
// value as shells need it. A value may have newlines.
func parseEnv(text string) ([]variable, error) {
	var out []variable
	for text != "" {
		name, rest, ok := strings.Cut(text, "=")
		if !ok || name == "" || strings.ContainsAny(name, "\n' ") {
			return nil, errors.New("has a line that is not NAME='value'")
		}
		value, rest, err := parseQuoted(rest)
		if err != nil {
			return nil, fmt.Errorf("%s %w", name, err)
		}
		out, text = append(out, variable{name, value}), rest
	}
	return out, nil
}

// parseQuoted reads quoted pieces up to the end of the line.
func parseQuoted(text string) (value, rest string, err error) {
	var b strings.Builder
	for {
		switch {
		case strings.HasPrefix(text, "'"):
			piece, after, closed := strings.Cut(text[1:], "'")
			if !closed {
				return "", "", errors.New("has a quote that is not closed")
			}
			b.WriteString(piece)
			text = after
		case strings.HasPrefix(text, `\'`):
			b.WriteByte('\'')
			text = text[2:]
		case strings.HasPrefix(text, "\n"):
			return b.String(), text[1:], nil
		default:
			return "", "", errors.New("is not in single quotes up to the end of its line")
		}
	}
}
