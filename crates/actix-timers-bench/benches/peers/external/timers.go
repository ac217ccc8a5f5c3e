// Go's timers, started and stopped: "timers SIZE". The files standard.go and timingwheel.go are the two kinds, of which
// one is compiled with this file.
//
// Each input line requests a round: "pending" for start, churn and stop with SIZE timers pending, "fire SECONDS" for
// the delivery of SIZE timers within that time. The reply is a line per operation, with the caller's elapsed time and
// the CPU time of all threads, the garbage collector's included, and "done". The garbage of a round is collected before
// the next.
package main

import (
	"bufio"
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	size := number(os.Args[1])
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		runtime.GC()
		words := strings.Fields(input.Text())
		switch words[0] {
		case "pending":
			pending(size)
		case "fire":
			fire(size, time.Duration(number(words[1]))*time.Second)
		default:
			panic(input.Text())
		}
		fmt.Println("done")
	}
}

func number(text string) int {
	number, err := strconv.Atoi(text)
	check(err == nil, text)
	return number
}

func check(holds bool, what string) {
	if !holds {
		panic("wrong: " + what)
	}
}

// A timer's payload, 32 bytes. It must not expire.
type note [4]uint64

func start(random *splitMix, size, number int) *timer {
	n := uint64(number)
	message := note{n, n, n, n}
	return afterFunc(random.delay(size), func() { panic(message) })
}

func pending(size int) {
	random := splitMix(1)
	timers := make([]*timer, size)

	watch := newWatch()
	for i := range timers {
		timers[i] = start(&random, size, i)
	}
	watch.print("start", size)

	stopped := 0
	watch = newWatch()
	for i := 0; i < size; i++ {
		fresh := start(&random, size, i)
		place := random.below(uint64(size))
		old := timers[place]
		timers[place] = fresh
		if old.Stop() {
			stopped++
		}
	}
	watch.print("churn", size)
	check(stopped == size, "stopped in churn")

	for last := size - 1; last > 0; last-- {
		other := random.below(uint64(last + 1))
		timers[last], timers[other] = timers[other], timers[last]
	}
	stopped = 0
	watch = newWatch()
	for _, timer := range timers {
		if timer.Stop() {
			stopped++
		}
	}
	watch.print("stop", size)
	check(stopped == size, "stopped in stop")
}

func fire(size int, span time.Duration) {
	random := splitMix(1)
	late := make([]time.Duration, size)
	var received, written int64
	complete := make(chan struct{})

	before := cpu()
	// All are scheduled before the first is due.
	begin := time.Now().Add(500*time.Millisecond + time.Duration(size)*5*time.Microsecond)
	for i := 0; i < size; i++ {
		due := begin.Add(time.Duration(random.below(uint64(span))))
		afterFunc(time.Until(due), func() {
			now := time.Since(due)
			late[atomic.AddInt64(&received, 1)-1] = now
			if atomic.AddInt64(&written, 1) == int64(size) {
				close(complete)
			}
		})
	}
	check(time.Now().Before(begin), "scheduled in time")
	scheduled := cpu()
	<-complete
	after := cpu()

	sort.Slice(late, func(a, b int) bool { return late[a] < late[b] })
	early := sort.Search(size, func(i int) bool { return late[i] >= 0 })
	quantile := func(share float64) float64 {
		return float64(late[int(float64(size-1)*share+0.5)].Nanoseconds()) / 1e6
	}
	fmt.Printf("fire p50_ms=%.4f p99_ms=%.4f p999_ms=%.4f max_ms=%.4f early=%d cpu_after_s=%.4f cpu_all_s=%.4f\n",
		quantile(0.5), quantile(0.99), quantile(0.999), quantile(1), early,
		(after - scheduled).Seconds(), (after - before).Seconds())
}

type watch struct {
	cpu   time.Duration
	begin time.Time
}

func newWatch() watch {
	return watch{cpu(), time.Now()}
}

func (w watch) print(operation string, size int) {
	wall := time.Since(w.begin)
	// A stopped timer is only marked. The scheduler removes it from the heap when this goroutine sleeps.
	time.Sleep(2 * time.Millisecond)
	used := cpu() - w.cpu
	each := func(total time.Duration) float64 { return float64(total.Nanoseconds()) / float64(size) }
	fmt.Printf("%s wall_ns=%.2f cpu_ns=%.2f\n", operation, each(wall), each(used))
}

// Returns the CPU time of all threads of this process.
func cpu() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil, "getrusage")
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

type splitMix uint64

func (s *splitMix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	mixed := uint64(*s)
	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb
	return mixed ^ (mixed >> 31)
}

func (s *splitMix) below(bound uint64) uint64 {
	high, _ := bits.Mul64(s.next(), bound)
	return high
}

// Returns 10 s to 1 h; with many timers somewhat more, so that none is due before its stop.
func (s *splitMix) delay(size int) time.Duration {
	return time.Duration(10_000+uint64(size)/10+s.below(3_590_000)) * time.Millisecond
}
