package localcloud

import (
	"os"
	"path/filepath"
)

// Checkout finds the checkout of Cadre that holds the first matching path; an empty path means this
// program. Empty without a match.
func Checkout(paths ...string) string {
	for _, path := range paths {
		if path == "" {
			self, err := os.Executable()
			if err != nil {
				continue
			}
			path = self
		}
		path, err := filepath.Abs(path)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err != nil {
			continue
		}
		for dir := path; ; dir = filepath.Dir(dir) {
			if isFile(filepath.Join(dir, programsFile)) && isFile(filepath.Join(dir, "go.work")) {
				return dir
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Layout is the folder where a checkout's build leaves its images.
func Layout(checkout string) string { return filepath.Join(checkout, ".out", "images") }

// HasImages reports whether a checkout's images were built.
func HasImages(checkout string) bool { return isFile(filepath.Join(Layout(checkout), "index.json")) }

// ProgramMap is where a cloud of a checkout's programs has its image map.
func ProgramMap(dir string) string { return filepath.Join(dir, "programs.json") }

// RunsPrograms reports whether the cloud of a state folder runs a checkout's programs.
func RunsPrograms(dir string) bool { return isFile(ProgramMap(dir)) }

// IsNew reports whether no cloud was ever started on the state folder.
func IsNew(dir string) bool { return !isFile(filepath.Join(dir, "start.json")) }
