package images

import "time"

// Stored has the run settings of a container image's config. Path and Mounts of its Image are
// empty: it brings its own files.
type Stored struct {
	Image
	StopSignal string   `json:"stop_signal,omitempty"`
	Volumes    []string `json:"volumes,omitempty"`
	Health     *Health  `json:"health,omitempty"`
}

// Health is an image's own health check: Test begins with CMD, CMD-SHELL or NONE, as in
// a compose file. Zero values take the defaults of one.
type Health struct {
	Test        []string      `json:"test"`
	Interval    time.Duration `json:"interval,omitempty"`
	Timeout     time.Duration `json:"timeout,omitempty"`
	StartPeriod time.Duration `json:"start_period,omitempty"`
	Retries     int           `json:"retries,omitempty"`
}

// Unpacked is a container image on this machine.
type Unpacked struct {
	Stored
	// Root is its root file system, never to be written to.
	Root string `json:"root"`
}
