package e2e_terraform

import (
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cadre.dev/client"
	"cadre.dev/demo/internal/leak"
)

// secrets are the members' present secrets from the coordinators.
func (s *stage) secrets() []leak.Canary {
	s.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/root/run/mesh/secrets/*")
	s.must("look for secrets", err)
	seen := map[string]bool{}
	var out []leak.Canary
	for _, file := range files {
		value, err := os.ReadFile(file)
		if err != nil || len(value) == 0 || seen[string(value)] {
			continue // of a process that ended, or of another one of the same CVM
		}
		seen[string(value)] = true
		out = append(out, leak.Canary{Name: "secret " + filepath.Base(file), Value: value})
	}
	return out
}

// hasNoSecret looks for the members' secrets and this machine's secrets in everything that
// Terraform wrote, printed or logged, and in the logs of the cloud and its CVMs. The plans must be
// among the searched files.
func (s *stage) hasNoSecret(known client.Context, members []leak.Canary, plans ...string) {
	s.Helper()
	cloud, err := s.Cloud()
	s.must("read the cloud", err)
	scanner, err := leak.New(append([]leak.Canary{
		{Name: "the operator's token", Value: []byte(known.Token)},
		{Name: "the platform's key", Value: []byte(cloud.APIKey)},
	}, members...))
	s.must("make the scanner", err)
	sinks := 0
	s.must("look", filepath.WalkDir(filepath.Dir(s.State), func(path string, entry fs.DirEntry, err error) error {
		inCloud := strings.HasPrefix(path, filepath.Dir(s.CloudFile())+"/")
		if err != nil || !entry.Type().IsRegular() || inCloud && filepath.Ext(path) != ".log" {
			return err
		}
		sinks++
		return inFile(path, func(name string, r io.Reader) error {
			hits, err := scanner.Scan(name, r)
			for _, hit := range hits {
				s.Errorf("%v", hit)
			}
			return err
		})
	}))
	files := []string{s.StateFile(), s.StateFile() + ".backup", filepath.Join(filepath.Dir(s.State), "trace.log")}
	for _, plan := range plans {
		files = append(files, s.planFile(plan))
	}
	for _, name := range files {
		if info, err := os.Stat(name); err != nil || info.Size() == 0 {
			s.Errorf("%s was to be looked at: %v", name, err)
		}
	}
	if sinks < 10 {
		s.Errorf("looked at %d files only", sinks)
	}
}

// inFile has look read a file, or each file in it: a plan is an archive.
func inFile(path string, look func(name string, r io.Reader) error) error {
	name := filepath.Base(path)
	if filepath.Ext(path) == ".plan" {
		plan, err := zip.OpenReader(path)
		if err != nil {
			return err
		}
		for _, part := range plan.File {
			r, err := part.Open()
			if err == nil {
				err = errors.Join(look(name+"/"+part.Name, r), r.Close())
			}
			if err != nil {
				return errors.Join(err, plan.Close())
			}
		}
		return plan.Close()
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(look(name, file), file.Close())
}
