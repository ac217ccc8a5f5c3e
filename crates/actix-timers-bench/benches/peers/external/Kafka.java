import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.TimerTask;

/**
 * Kafka's SystemTimer, with its default wheels of 20 buckets and ticks of 1 ms: {@code java Kafka SIZE}.
 *
 * <p>The caller links a task into its bucket. A thread advances the clock, as Kafka's own reaper does. A cancel does not
 * tell whether the task was pending, so the number of tasks is compared before and after.
 */
public final class Kafka extends Peer {
    /** That of Kafka's reaper. */
    private static final long PATIENCE_MS = 200;

    private SystemTimer timer;
    private Thread reaper;
    private volatile boolean open;

    public static void main(String[] arguments) {
        new Kafka().answer(arguments[0]);
    }

    @Override
    void open() {
        timer = new SystemTimer("bench");
        open = true;
        reaper = new Thread(() -> {
            try {
                while (open) {
                    timer.advanceClock(PATIENCE_MS);
                }
            } catch (InterruptedException closed) {
                // The round is over.
            }
        });
        reaper.start();
    }

    @Override
    Object start(long number, long delayMillis) {
        var note = new Note(number, delayMillis);
        timer.add(note);
        return note;
    }

    @Override
    boolean cancel(Object handle) {
        int before = timer.size();
        ((TimerTask) handle).cancel();
        return timer.size() == before - 1;
    }

    @Override
    void start(Lateness lateness, long due) {
        timer.add(new Late(lateness, due));
    }

    @Override
    long pending() {
        return timer.size();
    }

    @Override
    boolean close() throws Exception {
        boolean none = timer.size() == 0;
        open = false;
        reaper.interrupt();
        reaper.join();
        timer.close();
        return none;
    }

    /** A task with 32 bytes of payload. It must not run: the executor would keep its exception to itself. */
    private static final class Note extends TimerTask {
        private final long a;
        private final long b;
        private final long c;
        private final long d;

        Note(long number, long delayMillis) {
            super(delayMillis);
            a = number;
            b = number;
            c = number;
            d = number;
        }

        @Override
        public void run() {
            new IllegalStateException("fired: " + (a + b + c + d) / 4).printStackTrace();
            System.exit(1);
        }
    }

    private static final class Late extends TimerTask {
        private final Lateness lateness;
        private final long due;

        Late(Lateness lateness, long due) {
            // Rounded up to a millisecond; the timer itself drops the fraction of the current one.
            super((due - System.nanoTime() + 999_999) / 1_000_000);
            this.lateness = lateness;
            this.due = due;
        }

        @Override
        public void run() {
            lateness.add(System.nanoTime() - due);
        }
    }
}
