package declared

import (
	"time"

	"go.yaml.in/yaml/v3"
)

// Stops are how long services of a compose text have to end, by name, where it says so plainly in
// stop_grace_period.
func Stops(compose string) (stops map[string]time.Duration) {
	stops = map[string]time.Duration{}
	// As of Read: a parser's crash is a text that says nothing.
	defer func() { _ = recover() }()
	root, err := parse(compose)
	if err != nil {
		return stops
	}
	each(get(root, "services"), func(key, service *yaml.Node) {
		if d, err := time.ParseDuration(text(service, "stop_grace_period")); err == nil && d > 0 {
			stops[key.Value] = d
		}
	})
	return stops
}
