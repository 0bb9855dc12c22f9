package osimage

import (
	_ "embed"
	"encoding/json"
)

//go:embed known.json
var knownJSON []byte

// Known are values of one image in one shape that a public source states.
type Known struct {
	Image string `json:"image"`
	// ImageHash is os_image_hash; empty where the source does not say it.
	ImageHash string `json:"os_image_hash,omitempty"`
	VCPU      int    `json:"vcpu"`
	MemoryMB  int    `json:"memory_mb"`
	QEMU      string `json:"qemu"`
	// Dev images let their operator in.
	Dev bool `json:"dev,omitempty"`
	Measured
	Source string `json:"source"`
}

// Table is every known value, oldest image first.
func Table() ([]Known, error) {
	var out []Known
	return out, json.Unmarshal(knownJSON, &out)
}
