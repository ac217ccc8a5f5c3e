// Go's time.AfterFunc and Stop.
package main

import "time"

type timer = time.Timer

func afterFunc(delay time.Duration, action func()) *timer {
	return time.AfterFunc(delay, action)
}
