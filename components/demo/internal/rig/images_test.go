package rig

import (
	"path/filepath"
	"strings"
	"testing"
)

// Services stand on this machine's files; of its commands they find the declared ones.
func TestServicesFindDeclaredCommandsOnly(t *testing.T) {
	for name, image := range Images("/cadre/bin", "/cadre/.tools", "/usr/lib/postgresql/15/bin") {
		dirs := filepath.SplitList(image.Env["PATH"])
		if len(dirs) == 0 || dirs[len(dirs)-1] != "/cadre/.tools/path/run" {
			t.Errorf("%s: the declared commands are not on its PATH %q", name, dirs)
		}
		for _, dir := range dirs {
			if !strings.HasPrefix(dir, "/cadre/") && dir != "/usr/lib/postgresql/15/bin" {
				t.Errorf("%s finds what lies in %s", name, dir)
			}
		}
	}
}
