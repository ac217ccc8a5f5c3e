// RussellLuo/timingwheel: wheels after Kafka's, with ticks of 1 ms and 20 buckets as in its documentation.
package main

import (
	"time"

	"github.com/RussellLuo/timingwheel"
)

type timer = timingwheel.Timer

var wheel = started()

func started() *timingwheel.TimingWheel {
	wheel := timingwheel.NewTimingWheel(time.Millisecond, 20)
	wheel.Start()
	return wheel
}

func afterFunc(delay time.Duration, action func()) *timer {
	return wheel.AfterFunc(delay, action)
}
