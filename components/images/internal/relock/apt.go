package relock

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cadre.dev/images/internal/fetch"
	"cadre.dev/images/internal/recipe"
)

// keyring has the keys that sign Debian's archive (package debian-archive-keyring).
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// apt asks apt-get with a state of its own: an empty machine, and the pinned suite on the
// machine's mirrors.
type apt struct {
	dir, suite string
	mirrors    fetch.Mirrors
	ready      bool
}

func (a *apt) prepare(ctx context.Context) error {
	if a.ready {
		return nil
	}
	for _, dir := range []string{"lists/partial", "cache/archives/partial", "etc"} {
		if err := os.MkdirAll(filepath.Join(a.dir, dir), 0o755); err != nil { //nolint:gosec // apt reads it as another user
			return fmt.Errorf("make a state for apt: %w", err)
		}
	}
	if _, err := os.Stat(keyring); err != nil {
		return fmt.Errorf("apt cannot check signatures: %w (Debian package debian-archive-keyring)", err)
	}
	var sources bytes.Buffer
	for _, suite := range []struct{ archive, name string }{{"debian", a.suite}, {"debian", a.suite + "-updates"}, {"debian-security", a.suite + "-security"}} {
		fmt.Fprintf(&sources, "deb [signed-by=%s] %s %s main\n", keyring, a.mirrors.First(suite.archive), suite.name)
	}
	for name, data := range map[string][]byte{"status": nil, "sources.list": sources.Bytes()} {
		if err := os.WriteFile(filepath.Join(a.dir, name), data, 0o644); err != nil { //nolint:gosec // apt reads it as another user
			return fmt.Errorf("make a state for apt: %w", err)
		}
	}
	if err := os.Chmod(filepath.Dir(a.dir), 0o755); err != nil { //nolint:gosec // apt reads it as another user
		return fmt.Errorf("make a state for apt: %w", err)
	}
	_, err := a.get(ctx, "update")
	a.ready = err == nil
	return err
}

func (a *apt) get(ctx context.Context, args ...string) ([]byte, error) {
	options := []string{"-qq"}
	for _, o := range []string{
		"Dir::State=" + a.dir, "Dir::State::status=" + a.dir + "/status", "Dir::State::lists=" + a.dir + "/lists", "Dir::Cache=" + a.dir + "/cache",
		"Dir::Etc::sourcelist=" + a.dir + "/sources.list", "Dir::Etc::sourceparts=-", "Dir::Etc::preferences=-", "Dir::Etc::preferencesparts=-",
		"Acquire::ForceHash=SHA256", "Acquire::Languages=none", "APT::Architecture=amd64", "APT::Architectures=amd64",
		"APT::Install-Recommends=false", "APT::Install-Suggests=false", "Debug::NoLocking=1",
	} {
		options = append(options, "-o", o)
	}
	cmd, err := a.command(ctx, "apt-get", append(options, args...)...)
	if err != nil {
		return nil, err
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("apt-get %s: %w\n%s", args[0], err, fetch.Redact(string(bytes.TrimSpace(errs.Bytes()))))
	}
	return out, nil
}

// own is read before anything else and excludes the machine's configuration: its pins,
// recommendations and old lists must not change a lock.
const own = "Dir::Etc::main \"/dev/null\";\nDir::Etc::parts \"/dev/null\";\n"

// ways are the settings of the machine by which it reaches its mirrors.
var ways = []string{"Acquire::http::Proxy", "Acquire::https::Proxy", "Acquire::https::CAInfo"}

// command is a program of apt with nothing of the machine's configuration but the ways to
// its mirrors.
func (a *apt) command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	conf := filepath.Join(a.dir, "apt.conf")
	if _, err := os.Stat(conf); err != nil {
		text := own
		for _, key := range ways {
			out, err := exec.CommandContext(ctx, "apt-config", "shell", "VALUE", key).Output()
			if err != nil {
				return nil, fmt.Errorf("ask apt-config for %s: %w", key, err)
			}
			// It prints VALUE='…', or nothing.
			value := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(string(out)), "VALUE='"), "'")
			if value != "" && !strings.ContainsAny(value, "\"\n\\;'") {
				text += fmt.Sprintf("%s \"%s\";\n", key, value)
			}
		}
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("make a state for apt: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "APT_CONFIG="+conf)
	return cmd, nil
}

// resolve lists the packages with everything that they need, sorted by name.
func (a *apt) resolve(ctx context.Context, names []string) ([]recipe.Deb, error) {
	if err := a.prepare(ctx); err != nil {
		return nil, err
	}
	out, err := a.get(ctx, append([]string{"install", "--print-uris"}, names...)...)
	if err != nil {
		return nil, err
	}
	return parseURIs(out)
}

var uriLine = regexp.MustCompile(`^'([^']+)' ([^_ ]+)_([^_ ]+)_[a-z0-9]+\.deb ([0-9]+) SHA256:([0-9a-f]{64})$`)

// parseURIs reads the output of apt-get --print-uris.
func parseURIs(out []byte) ([]recipe.Deb, error) {
	var all []recipe.Deb
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		m := uriLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("apt-get prints %.200q, which is no package with its SHA-256", fetch.Redact(line))
		}
		at, err := url.Parse(m[1])
		if err != nil {
			return nil, fmt.Errorf("apt-get prints %.200q, which holds no URL", fetch.Redact(line))
		}
		path, err := relative(at.Path)
		if err != nil {
			return nil, err
		}
		version, err := url.PathUnescape(m[3])
		if err != nil {
			return nil, fmt.Errorf("apt-get prints the version %q: %w", m[3], err)
		}
		size, err := strconv.ParseInt(m[4], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("apt-get prints the size %q: %w", m[4], err)
		}
		all = append(all, recipe.Deb{Name: m[2], Version: version, Blob: recipe.Blob{SHA256: m[5], Size: size}, Path: path})
	}
	slices.SortFunc(all, func(x, y recipe.Deb) int { return strings.Compare(x.Name, y.Name) })
	return all, nil
}

// relative removes the part before the archive's folder, which belongs to the mirror.
func relative(path string) (string, error) {
	for _, archive := range recipe.Archives {
		if _, below, ok := strings.Cut(path, "/"+archive+"/pool/"); ok {
			return archive + "/pool/" + below, nil
		}
	}
	return "", fmt.Errorf("%s is in none of %s", path, strings.Join(recipe.Archives, ", "))
}
