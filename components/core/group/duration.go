package group

import (
	"fmt"
	"time"
)

// Duration is a time.Duration written as Go duration text ("90s", "10m") in JSON and HCL.
type Duration time.Duration

// D returns d as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String formats d as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes d as duration text.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads duration text; a bare number is refused, since its unit would be a guess.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as \"30s\" or \"10m\"", text)
	}
	*d = Duration(parsed)
	return nil
}
