package relock

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"cadre.dev/images/internal/fetch"
	"cadre.dev/images/internal/recipe"
)

// pip resolves requirements for the image's Python, on a machine with any Python.
type pip struct {
	dir, python string
}

// report lists pip's planned installations (version 1 of its installation report).
type report struct {
	Install []struct {
		Download struct {
			URL     string `json:"url"`
			Archive struct {
				Hashes map[string]string `json:"hashes"`
			} `json:"archive_info"`
		} `json:"download_info"`
		Metadata struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"metadata"`
	} `json:"install"`
}

func (p *pip) resolve(ctx context.Context, requirements []string, cache *fetch.Cache) ([]recipe.Wheel, error) {
	if err := command(ctx, "python3", "-m", "venv", p.dir); err != nil {
		return nil, fmt.Errorf("make a virtual environment for pip: %w", err)
	}
	wheels, said := filepath.Join(p.dir, "wheels"), filepath.Join(p.dir, "report.json")
	target := []string{"--only-binary=:all:", "--python-version", p.python, "--implementation", "cp", "--abi", "cp" + strings.ReplaceAll(p.python, ".", "")}
	// The most portable kinds first; the last is the newest that the pinned suite's C library has.
	for _, platform := range []string{"manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_31_x86_64", "manylinux_2_34_x86_64"} {
		target = append(target, "--platform", platform)
	}
	program := filepath.Join(p.dir, "bin/pip")
	args := slices.Concat([]string{"install", "-q", "--no-deps", "--dry-run", "--ignore-installed", "--report", said, "--target", wheels}, target, requirements)
	if err := command(ctx, program, args...); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(said)
	if err != nil {
		return nil, fmt.Errorf("read pip's report: %w", err)
	}
	all, err := parseReport(data)
	if err != nil {
		return nil, err
	}
	// Sizes are not in the report.
	args = slices.Concat([]string{"download", "-q", "--no-deps", "-d", wheels}, target)
	for _, w := range all {
		args = append(args, w.Name+"=="+w.Version)
	}
	if err := command(ctx, program, args...); err != nil {
		return nil, err
	}
	for i, w := range all {
		if all[i].Size, err = keep(cache, filepath.Join(wheels, w.File), w.SHA256); err != nil {
			return nil, fmt.Errorf("wheel %s: %w", w.Name, err)
		}
	}
	return all, nil
}

func keep(cache *fetch.Cache, name, digest string) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	_, err = cache.Store(f, digest)
	return info.Size(), err
}

func parseReport(data []byte) ([]recipe.Wheel, error) {
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("read pip's report: %w", err)
	}
	var all []recipe.Wheel
	for _, i := range r.Install {
		at, err := url.Parse(i.Download.URL)
		if err != nil {
			return nil, fmt.Errorf("read pip's report: %w", err)
		}
		all = append(all, recipe.Wheel{
			Name: recipe.Normal(i.Metadata.Name), Version: i.Metadata.Version, File: path.Base(at.Path),
			Blob: recipe.Blob{SHA256: i.Download.Archive.Hashes["sha256"]},
		})
	}
	slices.SortFunc(all, func(x, y recipe.Wheel) int { return strings.Compare(x.Name, y.Name) })
	return all, nil
}

func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), args[0], err, fetch.Redact(string(bytes.TrimSpace(out))))
	}
	return nil
}
