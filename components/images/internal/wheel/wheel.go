// Package wheel reads Python wheels: the paths of an installer's files, without running an
// installer.
package wheel

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"cadre.dev/images/internal/tree"
)

// Bounds of a wheel, in bytes and files.
const (
	maxFile  = 256 << 20
	maxTotal = 1 << 30
	maxFiles = 50_000
)

// Package is the content of a wheel.
type Package struct {
	Name, Version string
	// Metadata are the fields of the wheel, then its description.
	Metadata []byte
	// Licences are the texts of the files that are called so.
	Licences [][]byte
	// Files are where an installer would put them.
	Files []tree.Entry
}

// Layout says where an installer puts things, without a leading slash.
type Layout struct {
	// Site is the folder of modules, Scripts that of commands.
	Site, Scripts string
	// Python is the interpreter of scripts, absolute.
	Python string
}

var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)[^/]*$`)

// Read reads the wheel in a file.
func Read(name string, to Layout) (*Package, error) {
	z, err := zip.OpenReader(name)
	if err != nil {
		return nil, fmt.Errorf("open wheel: %w", err)
	}
	defer func() { _ = z.Close() }()
	if len(z.File) > maxFiles {
		return nil, fmt.Errorf("more than %d files", maxFiles)
	}
	p := &Package{}
	var total int64
	var points []byte
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		data, err := content(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if total += int64(len(data)); total > maxTotal {
			return nil, fmt.Errorf("more than %d bytes", maxTotal)
		}
		folder, below, _ := strings.Cut(f.Name, "/")
		if strings.HasSuffix(folder, ".dist-info") {
			switch {
			case below == "METADATA":
				p.Metadata = data
			case below == "entry_points.txt":
				points = data
			case licenceName.MatchString(below[strings.LastIndexByte(below, '/')+1:]):
				p.Licences = append(p.Licences, data)
			}
		}
		e, err := place(f.Name, data, to)
		if err != nil {
			return nil, err
		}
		// Programs that a package brings. Libraries may have the bit too, and need none.
		if f.Mode()&0o111 != 0 && path.Ext(f.Name) == "" {
			e.Mode = 0o755
		}
		p.Files = append(p.Files, e)
	}
	p.Name, p.Version = Field(p.Metadata, "Name"), Field(p.Metadata, "Version")
	if p.Name == "" || p.Version == "" {
		return nil, errors.New("no METADATA with Name and Version in it")
	}
	scripts, err := consoleScripts(points, to)
	if err != nil {
		return nil, fmt.Errorf("entry_points.txt: %w", err)
	}
	p.Files = append(p.Files, scripts...)
	for i := range p.Files {
		p.Files[i].Origin = p.Name + " " + p.Version
	}
	return p, nil
}

func content(f *zip.File) ([]byte, error) {
	if !f.Mode().IsRegular() || f.UncompressedSize64 > maxFile {
		return nil, errors.New("no regular file, or too large")
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = errors.New("too large")
	}
	return data, err
}

// place finds where a file goes: "<name>.data/<kind>/…" has kinds, all else is modules.
func place(name string, data []byte, to Layout) (tree.Entry, error) {
	clean, err := tree.Clean(name)
	if err != nil {
		return tree.Entry{}, err
	}
	e := tree.Entry{Path: to.Site + "/" + clean, Kind: tree.File, Mode: 0o644, Body: tree.Bytes(data)}
	folder, below, _ := strings.Cut(clean, "/")
	if !strings.HasSuffix(folder, ".data") {
		return e, nil
	}
	kind, rest, _ := strings.Cut(below, "/")
	switch kind {
	case "purelib", "platlib":
		e.Path = to.Site + "/" + rest
	case "scripts":
		e.Path, e.Mode = to.Scripts+"/"+rest, 0o755
		if after, ok := bytes.CutPrefix(data, []byte("#!python")); ok {
			e.Body = tree.Bytes(append([]byte("#!"+to.Python), after...))
		}
	case "data":
		e.Path = "usr/local/" + rest
	default:
		return e, fmt.Errorf("%s: files of the kind %q are not known here", name, kind)
	}
	return e, nil
}

var (
	entryPoint = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)\s*=\s*([A-Za-z_][A-Za-z0-9_.]*):([A-Za-z_][A-Za-z0-9_.]*)(\s*\[.*\])?$`)
	section    = regexp.MustCompile(`^\[(.+)\]$`)
)

// consoleScripts makes the commands that an installer would make.
func consoleScripts(points []byte, to Layout) ([]tree.Entry, error) {
	var all []tree.Entry
	in := ""
	lines := bufio.NewScanner(bytes.NewReader(points))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if m := section.FindStringSubmatch(line); m != nil {
			in = m[1]
			continue
		}
		if in != "console_scripts" || line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		m := entryPoint.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("%.80q is no entry point", line)
		}
		function, _, _ := strings.Cut(m[3], ".")
		// The guard: multiprocessing imports the script again in each process that it spawns.
		text := fmt.Sprintf("#!%s\nimport sys\nfrom %s import %s\nif __name__ == \"__main__\":\n    sys.exit(%s())\n", to.Python, m[2], function, m[3])
		all = append(all, tree.Entry{Path: to.Scripts + "/" + m[1], Kind: tree.File, Mode: 0o755, Body: tree.Bytes([]byte(text))})
	}
	return all, lines.Err()
}

// Field returns the first value of a field of METADATA; empty when it has none.
func Field(metadata []byte, name string) string {
	if all := Fields(metadata, name); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Fields returns the values of a field of METADATA.
func Fields(metadata []byte, name string) []string {
	var all []string
	for line := range strings.Lines(string(metadata)) {
		if strings.TrimSpace(line) == "" {
			break // the description begins
		}
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			all = append(all, strings.TrimSpace(value))
		}
	}
	return all
}
