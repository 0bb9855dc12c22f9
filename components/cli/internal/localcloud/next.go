package localcloud

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"cadre.dev/client"
	"cadre.dev/client/format"
)

// Cluster is a folder of a checkout with the files of a cluster.
type Cluster struct {
	// Dir is the folder; Name its last part.
	Dir, Name string
	// Terraform: it has a main.tf.
	Terraform bool
	// Create makes the cluster; Groups fill it. Both are HCL files.
	Create string
	Groups []string
}

// ReadCluster reads a folder. A folder without a cluster.hcl shares the one of its sibling folder
// postgres.
func ReadCluster(dir string) (Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Cluster{}, err
	}
	c := Cluster{Dir: dir, Name: filepath.Base(dir), Terraform: isFile(filepath.Join(dir, "main.tf"))}
	if c.Terraform {
		return c, nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.hcl"))
	if err != nil {
		return c, err
	}
	for _, file := range files {
		if filepath.Base(file) == "cluster.hcl" {
			c.Create = file
		} else {
			c.Groups = append(c.Groups, file)
		}
	}
	if c.Create == "" && len(c.Groups) > 0 {
		c.Create = filepath.Join(filepath.Dir(dir), "postgres", "cluster.hcl")
	}
	switch _, err := os.Stat(dir); {
	case errors.Is(err, os.ErrNotExist):
		return c, fmt.Errorf("%s does not exist%s", dir, others(filepath.Dir(dir)))
	case !isFile(c.Create):
		return c, fmt.Errorf("%s has neither main.tf nor the files of a cluster%s", dir, others(filepath.Dir(dir)))
	}
	return c, nil
}

// others names the clusters in a folder.
func others(dir string) string {
	var names []string
	for _, pattern := range []string{"*/main.tf", "*/*.hcl"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, file := range found {
			if name := filepath.Base(filepath.Dir(file)); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "; " + dir + " has: " + strings.Join(names, ", ")
}

// Clusters are the folders below a checkout's clusters/ that can be made. One without a
// README is a test's own, and nothing to begin with.
func Clusters(checkout string) []string {
	entries, err := os.ReadDir(filepath.Join(checkout, "clusters"))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		dir := filepath.Join(checkout, "clusters", e.Name())
		if c, err := ReadCluster(dir); err == nil && (c.Terraform || len(c.Groups) > 0) && isFile(filepath.Join(dir, "README.md")) {
			names = append(names, "clusters/"+e.Name())
		}
	}
	return names
}

var (
	variables   = regexp.MustCompile(`(?ms)^variable "(\w+)" \{(.*?)^\}`)
	hasDefault  = regexp.MustCompile(`(?m)^\s*default\s*=`)
	clusterName = regexp.MustCompile(`(?m)^cluster "([a-z][a-z0-9-]*)"`)
)

// Facts are the known values for the variables of a cluster's files.
type Facts struct {
	// Program is how the user calls this program; CloudFile the path of cloud.json.
	Program, CloudFile string
	// Programs: CVMs run this machine's programs, which have other paths than the images' programs.
	Programs bool
	// Image gives the pinned reference for a variable such as "agent_image".
	Image func(variable string) (string, error)
}

// Commands are the commands that make the cluster, one a line or more. problems are variables that
// could not be filled in.
func (c Cluster) Commands(f Facts) (lines []string, problems []error) {
	if c.Terraform {
		return []string{"make cluster NAME=" + c.Name + "   # on a local cloud of its own"}, nil
	}
	raw, err := os.ReadFile(c.Create)
	if err != nil {
		return nil, []error{err}
	}
	context := "PATH"
	if m := clusterName.FindSubmatch(raw); m != nil {
		if path, err := client.Path(string(m[1])); err == nil {
			context = path
		}
	}
	for i, file := range append([]string{c.Create}, c.Groups...) {
		verb := "group apply"
		if i == 0 {
			verb = "cluster create"
		}
		vars, errs := f.variables(file, context)
		problems = append(problems, errs...)
		lines = append(lines, strings.Join(slices.Concat([]string{format.Word(f.Program) + " " + verb}, vars, []string{format.Word(near(file))}), " \\\n    "))
	}
	return lines, problems
}

// variables are the --var flags that a file needs.
func (f Facts) variables(file, context string) (flags []string, problems []error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, []error{err}
	}
	for _, m := range variables.FindAllSubmatch(raw, -1) {
		name := string(m[1])
		if hasDefault.Match(m[2]) && (!f.Programs || !ofThisMachine(name)) {
			continue
		}
		value, err := f.value(name, context)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", near(file), name, err))
			value = "..."
		}
		flags = append(flags, "--var "+format.Word(name+"="+value))
	}
	return flags, problems
}

// ofThisMachine: the default of the variable is the image's value, not this machine's.
func ofThisMachine(name string) bool { return name == "postgres_bin" || name == "postgres_gid" }

func (f Facts) value(name, context string) (string, error) {
	switch {
	case name == "cloud":
		return f.CloudFile, nil
	case name == "context":
		return context, nil
	case strings.HasSuffix(name, "_image"):
		return f.Image(name)
	case name == "postgres_bin":
		found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
		if err != nil || len(found) == 0 {
			return "", errors.New("no PostgreSQL server on this machine: run `make tools`")
		}
		return found[len(found)-1], nil
	case name == "postgres_gid":
		g, err := user.LookupGroup("postgres")
		if err != nil {
			return "", err
		}
		return g.Gid, nil
	}
	return "", errors.New("this command does not know it")
}

// near is a path as one would type it here.
func near(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	short, err := filepath.Rel(here, path)
	if err != nil || strings.HasPrefix(short, "..") {
		return path
	}
	return short
}
