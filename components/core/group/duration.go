package group

import (
	"fmt"
	"strconv"
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
	parsed, err := ParseDuration(string(text))
	if err == nil {
		*d = parsed
	}
	return err
}

// ParseDuration reads duration text. The error completes a sentence whose subject is the field.
func ParseDuration(text string) (Duration, error) {
	parsed, err := time.ParseDuration(text)
	if err == nil {
		return Duration(parsed), nil
	}
	if _, number := strconv.ParseFloat(text, 64); number == nil {
		return 0, fmt.Errorf("is %.40s without a unit: write \"%.40ss\", or another text such as \"5m\"", text, text)
	}
	return 0, fmt.Errorf("is %.40q, which is not a duration: write a text such as \"300s\" or \"5m\"", text)
}
