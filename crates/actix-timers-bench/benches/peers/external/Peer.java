import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.HashSet;
import java.util.concurrent.CountDownLatch;

/**
 * A timer of the JVM: its main takes SIZE first.
 *
 * <p>Each line of the input requests one round: {@code pending} for start, churn and stop with SIZE timers pending,
 * {@code fire SECONDS} for the delivery of SIZE timers within that time. The reply is a line per operation, and
 * {@code done}.
 *
 * <p>A caller may leave work to the timer's own threads. So the CPU time of all threads until the work is done is
 * measured, beside the time of the caller. Unmeasured rounds come first, for the JIT compiler; the garbage of a round is
 * collected before the next.
 */
abstract class Peer {
    private static final long SECOND = 1_000_000_000L;
    private static final int WARM_ROUNDS = 2;
    private static final int WARM_OPERATIONS = 400_000;
    private static final int WARM_DELIVERIES = 100_000;

    private boolean measured;

    /** Begins a round with a new timer. */
    abstract void open() throws Exception;

    /** Schedules a task with 32 bytes of payload, which must not run, and returns its handle. */
    abstract Object start(long number, long delayMillis);

    /** Cancels a task and returns whether it was pending. */
    abstract boolean cancel(Object handle);

    /** Schedules a task that notes its lateness. */
    abstract void start(Lateness lateness, long due);

    /** Waits until the other threads have done all that callers left to them. */
    void settle() throws Exception {}

    abstract long pending();

    /** Ends the round and returns whether no task was left. */
    abstract boolean close() throws Exception;

    /** Answers requests until the input ends. */
    final void answer(String size) {
        try {
            answer(Integer.parseInt(size));
            System.exit(0);
        } catch (Exception problem) {
            problem.printStackTrace();
            // The threads of the timer would continue.
            System.exit(1);
        }
    }

    private void answer(int size) throws Exception {
        Cpu.calibrate();
        var input = new BufferedReader(new InputStreamReader(System.in));
        var warm = new HashSet<String>();
        for (var asked = input.readLine(); asked != null; asked = input.readLine()) {
            if (warm.add(asked)) {
                warmUp(asked, size);
            }
            measured = true;
            round(asked, size);
            System.out.println("done");
            System.out.flush();
        }
    }

    private void warmUp(String asked, int size) throws Exception {
        measured = false;
        boolean fire = asked.startsWith("fire");
        int rounds = fire ? WARM_ROUNDS : Math.max(WARM_ROUNDS, WARM_OPERATIONS / size);
        for (int round = 0; round < rounds; round++) {
            round(asked, fire ? Math.min(size, WARM_DELIVERIES) : size);
        }
    }

    private void round(String asked, int size) throws Exception {
        System.gc();
        var words = asked.split(" ");
        switch (words[0]) {
            case "pending" -> pending(size);
            case "fire" -> fire(size, Long.parseLong(words[1]) * SECOND);
            default -> throw new IllegalArgumentException(asked);
        }
    }

    private void pending(int size) throws Exception {
        open();
        var random = new SplitMix(1);
        var handles = new Object[size];

        var watch = new Watch();
        for (int i = 0; i < size; i++) {
            handles[i] = start(i, random.delay(size));
        }
        watch.returned();
        settle();
        watch.print("start", size, measured);
        check(pending() == size, "pending after start");

        int cancelled = 0;
        watch = new Watch();
        for (int i = 0; i < size; i++) {
            var fresh = start(i, random.delay(size));
            int place = random.below(size);
            var old = handles[place];
            handles[place] = fresh;
            if (cancel(old)) {
                cancelled++;
            }
        }
        watch.returned();
        settle();
        watch.print("churn", size, measured);
        check(cancelled == size, "cancelled in churn");

        random.shuffle(handles);
        cancelled = 0;
        watch = new Watch();
        for (var handle : handles) {
            if (cancel(handle)) {
                cancelled++;
            }
        }
        watch.returned();
        settle();
        watch.print("stop", size, measured);
        check(cancelled == size, "cancelled in stop");
        check(close(), "left after stop");
    }

    private void fire(int size, long span) throws Exception {
        open();
        var random = new SplitMix(1);
        var lateness = new Lateness(size);

        long before = Cpu.read();
        // All are scheduled before the first is due.
        long begin = System.nanoTime() + SECOND / 2 + 5_000L * size;
        for (int i = 0; i < size; i++) {
            start(lateness, begin + random.below(span));
        }
        check(System.nanoTime() < begin, "scheduled in time");
        long scheduled = Cpu.read();
        lateness.complete.await();
        double after = Cpu.since(scheduled) / 1e9;
        double all = Cpu.since(before) / 1e9;

        check(close(), "left after fire");
        if (measured) {
            System.out.printf("fire %s cpu_after_s=%.4f cpu_all_s=%.4f%n", lateness.summary(), after, all);
        }
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException("wrong number: " + what);
        }
    }

    /** Written by the one thread that runs the tasks. */
    static final class Lateness {
        final CountDownLatch complete = new CountDownLatch(1);
        private final long[] nanos;
        private int received;

        Lateness(int size) {
            nanos = new long[size];
        }

        void add(long late) {
            nanos[received++] = late;
            if (received == nanos.length) {
                complete.countDown();
            }
        }

        String summary() {
            Arrays.sort(nanos);
            long early = Arrays.stream(nanos).takeWhile(late -> late < 0).count();
            return "p50_ms=%.4f p99_ms=%.4f p999_ms=%.4f max_ms=%.4f early=%d".formatted(
                    quantile(0.5), quantile(0.99), quantile(0.999), quantile(1), early);
        }

        private double quantile(double share) {
            return nanos[(int) Math.round((nanos.length - 1) * share)] / 1e6;
        }
    }

    /** Elapsed time until the caller's calls have returned, and CPU time of all threads until now. */
    private static final class Watch {
        private final long cpu = Cpu.read();
        private final long begin = System.nanoTime();
        private long wall;

        void returned() {
            wall = System.nanoTime() - begin;
        }

        void print(String operation, int size, boolean measured) {
            double used = Cpu.since(cpu);
            if (measured) {
                System.out.printf("%s wall_ns=%.2f cpu_ns=%.2f%n", operation, wall / (double) size, used / size);
            }
        }
    }

    /**
     * CPU time of all threads of this process, in nanoseconds. A thread's time is up to date after it has slept, so
     * the caller sleeps briefly. (The beans of the virtual machine count in steps of 10 ms.)
     */
    private static final class Cpu {
        /** The cost of a reading. */
        private static long cost;

        static void calibrate() {
            long least = Long.MAX_VALUE;
            for (int i = 0; i < 200; i++) {
                least = Math.min(least, since(read()));
            }
            cost = least;
        }

        static long since(long before) {
            return read() - before - cost;
        }

        static long read() {
            try {
                Thread.sleep(1);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
            long sum = 0;
            for (var thread : new File("/proc/self/task").list()) {
                try {
                    var text = Files.readString(new File("/proc/self/task", thread + "/schedstat").toPath());
                    sum += Long.parseLong(text.substring(0, text.indexOf(' ')));
                } catch (IOException ended) {
                    // The thread ended between the listing and the reading.
                }
            }
            return sum;
        }
    }

    private static final class SplitMix {
        private long state;

        SplitMix(long seed) {
            state = seed;
        }

        long next() {
            state += 0x9e3779b97f4a7c15L;
            long mixed = state;
            mixed = (mixed ^ (mixed >>> 30)) * 0xbf58476d1ce4e5b9L;
            mixed = (mixed ^ (mixed >>> 27)) * 0x94d049bb133111ebL;
            return mixed ^ (mixed >>> 31);
        }

        long below(long bound) {
            return Math.multiplyHigh(next() >>> 1, bound << 1);
        }

        int below(int bound) {
            return (int) below((long) bound);
        }

        /**
         * Returns 10 s to 1 h in milliseconds; with many timers somewhat more, so that none is due before its cancel.
         */
        long delay(int size) {
            return 10_000 + size / 10 + below(3_590_000L);
        }

        void shuffle(Object[] items) {
            for (int last = items.length - 1; last > 0; last--) {
                int other = below(last + 1);
                var item = items[last];
                items[last] = items[other];
                items[other] = item;
            }
        }
    }
}
