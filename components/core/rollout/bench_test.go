package rollout_test

import (
	"fmt"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/rollout/rollouttest"
)

// BenchmarkDecide plans groups with work pending: `go test -bench Decide -benchmem -cpuprofile cpu.out`. `make
// bench-plan` compares the figures with their targets.
func BenchmarkDecide(b *testing.B) {
	for _, kind := range []string{group.WorkloadNone, group.WorkloadPatroni} {
		for _, slots := range []int{100, 1_000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", kind, slots), func(b *testing.B) {
				world := rollouttest.Busy(slots, kind)
				b.ReportAllocs()
				for b.Loop() {
					world.Decide()
				}
			})
		}
	}
}

// BenchmarkDecideStruck plans groups with many simultaneous faults: the evaluation of each member must not walk all
// members.
func BenchmarkDecideStruck(b *testing.B) {
	for name, of := range map[string]func(int) rollouttest.World{"silent": rollouttest.Silent, "failing": rollouttest.Failing, "scaled in": rollouttest.ScaledIn} {
		for _, slots := range []int{200, 2_000} {
			b.Run(fmt.Sprintf("%s/%d", name, slots), func(b *testing.B) {
				world := of(slots)
				b.ReportAllocs()
				for b.Loop() {
					world.Decide()
				}
			})
		}
	}
}
