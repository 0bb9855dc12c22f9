package synctest_test

import (
	"runtime"
	"testing"
	"time"

	"cadre.dev/raced"
	"cadre.dev/raced/synctest"
)

func TestABubbleHasOneProcessorUnderTheRaceDetector(t *testing.T) {
	if before := runtime.GOMAXPROCS(2); before < 1 {
		t.Fatal(before)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		time.Sleep(time.Hour)
		synctest.Wait()
		if time.Since(began) != time.Hour {
			t.Error("the time is not virtual")
		}
		if one := runtime.GOMAXPROCS(0) == 1; one != raced.Enabled {
			t.Errorf("%d processors, with the race detector: %v", runtime.GOMAXPROCS(0), raced.Enabled)
		}
	})
}
