import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.lang.reflect.Field;
import java.util.Queue;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Netty's HashedWheelTimer with ticks of 1 ms: {@code java Netty SIZE SLOTS}.
 *
 * <p>The caller only puts a timer into a queue, and the timer's own thread links it into the wheel. The work is done when
 * both queues of the timer are empty.
 */
public final class Netty extends Peer {
    private final int slots;
    private HashedWheelTimer timer;
    private Queues queues;

    private Netty(int slots) {
        this.slots = slots;
    }

    public static void main(String[] arguments) {
        new Netty(Integer.parseInt(arguments[1])).answer(arguments[0]);
    }

    @Override
    void open() throws Exception {
        timer = new HashedWheelTimer(Executors.defaultThreadFactory(), 1, TimeUnit.MILLISECONDS, slots);
        timer.start();
        queues = new Queues(timer);
    }

    @Override
    Object start(long number, long delayMillis) {
        return timer.newTimeout(new Note(number), delayMillis, TimeUnit.MILLISECONDS);
    }

    @Override
    boolean cancel(Object handle) {
        return ((Timeout) handle).cancel();
    }

    @Override
    void start(Lateness lateness, long due) {
        timer.newTimeout(new Late(lateness, due), due - System.nanoTime(), TimeUnit.NANOSECONDS);
    }

    @Override
    void settle() throws InterruptedException {
        queues.drained();
    }

    @Override
    long pending() {
        return timer.pendingTimeouts();
    }

    @Override
    boolean close() {
        // Not pendingTimeouts(): it counts a timeout twice that is cancelled while its bucket is scanned.
        return timer.stop().isEmpty();
    }

    /** A task with 32 bytes of payload, which must not expire. */
    private record Note(long a, long b, long c, long d) implements TimerTask {
        Note(long number) {
            this(number, number, number, number);
        }

        @Override
        public void run(Timeout timeout) {
            throw new IllegalStateException("fired");
        }
    }

    private record Late(Lateness lateness, long due) implements TimerTask {
        @Override
        public void run(Timeout timeout) {
            lateness.add(System.nanoTime() - due);
        }
    }

    /** The queues between the callers and the thread of the timer, which are private in Netty. */
    private static final class Queues {
        private final Queue<?> started;
        private final Queue<?> cancelled;

        Queues(HashedWheelTimer timer) throws ReflectiveOperationException {
            started = queue(timer, "timeouts");
            cancelled = queue(timer, "cancelledTimeouts");
        }

        private static Queue<?> queue(HashedWheelTimer timer, String name) throws ReflectiveOperationException {
            Field field = HashedWheelTimer.class.getDeclaredField(name);
            field.setAccessible(true);
            return (Queue<?>) field.get(timer);
        }

        void drained() throws InterruptedException {
            do {
                Thread.sleep(2);
            } while (!started.isEmpty() || !cancelled.isEmpty());
            // The last removed timeout is still being linked or unlinked.
            Thread.sleep(2);
        }
    }
}
